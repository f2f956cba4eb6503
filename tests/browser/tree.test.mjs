// The tree in the real swarm: who is found by it, and what becomes of it when one of its inner
// nodes is gone.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

/** Small groups, so that a dozen nodes make several levels. */
const SMALL = ["--tree-degree", "2"];
const UNITS = 200;

test("a dozen nodes and two tabs form the tree, which places a job and outlives an inner node", async (t) => {
  const swarm = await Swarm.start(t, ...SMALL);
  const workers = [];
  for (let n = 1; n <= 12; n += 1) workers.push(await swarm.worker(`worker-${n}`, 1, ...SMALL));
  await swarm.donor("ada");
  await swarm.donor("grace");
  // The gateway's branch and those beside and below it hold a slot of every worker and tab.
  const tree = await swarm.tree((tree) => tree.joined && tree.above.length + tree.level > 0 && tree.network_slots === 14);

  const program = await swarm.upload(guest("xorshift"));
  const job = await swarm.submit({ name: "numbers", program, arguments: ["{}"], sweep: { first: 1, count: UNITS } });
  await swarm.follow(job.id, (job) => job.units.done >= UNITS / 4);
  const inner = tree.above[0] ?? tree.peers[0];
  await workers.find((worker) => worker.node === inner.id).kill();
  const ended = await swarm.finished(job.id);

  assert.equal(ended.state, "done", ended.reason);
  assert.equal(ended.units.done, UNITS);
  assert.ok(ended.by_node.length >= 12, `only ${ended.by_node.length} nodes were found`);
  const results = await swarm.results(job.id);
  assert.deepEqual(results.map((result) => result.index), Array.from({ length: UNITS }, (_, index) => index));
  for (const [index, result] of results.entries()) {
    const right = await execute(native("xorshift"), [String(index + 1)]);
    assert.equal(stdout(result), right.stdout, `unit ${index}`);
  }
  // Whole again, with one fewer.
  await swarm.tree((tree) => tree.joined && tree.network_slots === 13 && ![...tree.above, ...tree.peers, ...tree.children].some((node) => node.id === inner.id));
  assert.deepEqual(swarm.troubles, []);
});

test("the dashboard draws the tree with what is free, and the guests", async (t) => {
  const swarm = await Swarm.start(t);
  await swarm.worker("linus", 3);
  await swarm.donor("ada", 1);
  await swarm.tree((tree) => tree.joined && tree.network_slots === 4);
  const page = await swarm.tab(`/dashboard#token=${swarm.gateway.token}`);
  await page.getByRole("navigation").getByRole("link", { name: "Nodes" }).click();
  const drawing = page.getByRole("region", { name: "Tree" });
  await drawing.getByRole("listitem").filter({ hasText: "linus" }).filter({ hasText: "of 3 free" }).waitFor();
  await drawing.getByRole("listitem").filter({ hasText: "ada" }).filter({ hasText: "guest" }).waitFor();
  assert.deepEqual(swarm.troubles, []);
});
