// The ring in the real swarm: native processes take their places on it, and what one of them owns
// passes to the next when it is gone.

import assert from "node:assert/strict";
import { Swarm, test } from "./harness.mjs";

test("native nodes form the ring, and a dead one's keys pass to the next", async (t) => {
  const swarm = await Swarm.start(t);
  const workers = [];
  for (let n = 1; n <= 6; n += 1) workers.push(await swarm.worker(`worker-${n}`));
  await swarm.donor("ada");
  // A page is no member.
  const ring = await swarm.ring((ring) => ring.joined && ring.after && ring.successors.length === 6);
  const points = [ring.me, ...ring.successors].map(({ point }) => point);
  const clockwise = points.filter((point) => point > points[0]).sort();
  assert.deepEqual(points.slice(1), [...clockwise, ...points.slice(1).filter((p) => p < points[0]).sort()]);
  assert.equal(ring.predecessor.point, points.at(-1));

  // The owner of a name is the first member at or behind its key.
  const sorted = [...points].sort();
  const owners = new Map();
  for (let n = 0; n < 20; n += 1) {
    const { key, owner } = await swarm.api(`ring/owner?name=file-${n}`);
    assert.equal(owner.point, sorted.find((point) => point >= key) ?? sorted[0], `file-${n}`);
    owners.set(`file-${n}`, owner);
  }
  const [name, lost] = [...owners].find(([, owner]) => owner.id !== ring.me.id);
  await workers.find((worker) => worker.node === lost.id).kill();
  const healed = await swarm.ring((ring) => ring.joined && ring.after && ring.successors.length === 5);
  assert.ok(!healed.successors.some(({ id }) => id === lost.id));
  const heir = await swarm.api(`ring/owner?name=${name}`);
  const left = sorted.filter((point) => point !== lost.point);
  assert.equal(heir.owner.point, left.find((point) => point >= heir.key) ?? left[0]);
  assert.deepEqual(swarm.troubles, []);
});
