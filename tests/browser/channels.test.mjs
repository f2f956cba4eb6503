// Data channels: a tab works for a node that is not its gateway, and that nobody could connect to it in any other way.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

/** Some ten seconds of work on 4 MiB, and more fuel than it needs. */
const WORK = ["4", "1500000"];
const FUEL = 1_000_000_000_000;
const SPEED = 500_000_000;

const post = (swarm, path, body, of) =>
  swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, of });

test("a tab works for another gateway over a data channel, and goes on when its own one stands still", async (t) => {
  const swarm = await Swarm.start(t);
  const home = swarm.gateway;
  const ada = await swarm.trader("ada", 900_000, SPEED);
  const { code } = await post(swarm, "wallet/invites", { amount: 2_000_000_000 });
  await post(swarm, "wallet/redeem", { code }, ada);
  const tab = await swarm.seller("tab", 50_000, `/?speed=${SPEED}`);
  await swarm.offers((offers) => offers.some(({ seller }) => seller === tab.node));

  // From now on the story is told by ada, who owns the job.
  swarm.gateway = ada;
  const program = await swarm.upload(guest("ballast"));
  const { id } = await swarm.submit({ program, arguments: WORK, checkpoint: 1, find: "cheapest", max_price: 1_000_000_000, fuel_limit: FUEL });
  await swarm.unit(id, 0, ({ runner, checkpoints }) => runner === tab.node && checkpoints > 0);
  await swarm.pause(id, 0, true);
  await swarm.unit(id, 0, ({ paused }) => paused);
  const nodes = await swarm.nodes((nodes) => nodes.some((node) => node.id === tab.node));
  const { connection, reachable } = nodes.find((node) => node.id === tab.node);
  assert.deepEqual([connection, reachable], ["webrtc", false]);
  assert.match(nodes.find((node) => node.id === home.node).connection, /^(tcp|websocket)$/);

  process.kill(home.pid, "SIGSTOP");
  try {
    await swarm.pause(id, 0, false);
    const done = await swarm.finished(id);
    assert.equal(done.state, "done", done.reason);
    const [result] = await swarm.results(id);
    assert.equal(result.runner, tab.node);
    assert.equal(stdout(result), (await execute(native("ballast"), WORK)).stdout);
    // Ada is its second gateway, and the page says for whom it works.
    await tab.page.locator("#detail").filter({ hasText: "The tab works for others" }).waitFor();
    assert.equal(await tab.page.locator("#stage").getAttribute("data-phase"), "connected");
  } finally {
    process.kill(home.pid, "SIGCONT");
  }
  assert.deepEqual(swarm.troubles, []);
});
