// Claims that the harness waits for: one that cannot come true any more fails at once, and says why.

import assert from "node:assert/strict";
import { Swarm, guest, test } from "./harness.mjs";

test("a job that has ended is not waited for", async (t) => {
  const swarm = await Swarm.start(t);
  const program = await swarm.upload(guest("xorshift"));
  const { id } = await swarm.submit({ name: "numbers", program, arguments: ["1"] });
  await swarm.api(`jobs/${id}`, { method: "DELETE" });
  assert.equal((await swarm.finished(id)).state, "cancelled");
  await assert.rejects(swarm.follow(id, (job) => job.units.done > 0), /the job is cancelled, and so it stays/);
});

test("a process that ends by itself ends every wait", async (t) => {
  const swarm = await Swarm.start(t);
  const grace = await swarm.worker("grace");
  await swarm.nodes((nodes) => nodes.some(({ name }) => name === "grace"));
  const waiting = assert.rejects(swarm.nodes(() => false), /grace ended by itself \(SIGKILL\)/);
  process.kill(grace.pid, "SIGKILL");
  await waiting;
  await assert.rejects(swarm.nodes(() => false), /grace ended by itself/);
});
