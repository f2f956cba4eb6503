// A tab that sells to a gateway which is not its own: the parts of such a story.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout } from "./harness.mjs";

/** Some ten seconds of work on 4 MiB, and more fuel than it needs. */
const WORK = ["4", "1500000"];
const FUEL = 1_000_000_000_000;
/** Speed that the nodes of these stories say they have, units of fuel a second: none is measured. */
export const SPEED = 500_000_000;

const post = (swarm, path, body, of) =>
  swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, of });

/** The gateway that serves pages, ada, a second one that has credit, and a tab of the first that sells. */
export async function swarmOf(t, sell) {
  const swarm = await Swarm.start(t);
  const ada = await swarm.trader("ada", 900_000, SPEED);
  const { code } = await post(swarm, "wallet/invites", { amount: 2_000_000_000 });
  await post(swarm, "wallet/redeem", { code }, ada);
  const tab = await sell(swarm);
  await swarm.offers((offers) => offers.some(({ seller }) => seller === tab.node));
  return { swarm, ada, tab };
}

/** Has ada buy a place for a unit, which runs in the tab and is paused there; its job. */
export async function buy({ swarm, ada, tab }) {
  // From now on the story is told by ada, who owns the job.
  swarm.gateway = ada;
  const program = await swarm.upload(guest("ballast"));
  const { id } = await swarm.submit({ program, arguments: WORK, checkpoint: 1, find: "cheapest", max_price: 1_000_000_000, fuel_limit: FUEL });
  await swarm.unit(id, 0, ({ runner, checkpoints }) => runner === tab.node && checkpoints > 0);
  await swarm.pause(id, 0, true);
  await swarm.unit(id, 0, ({ paused }) => paused);
  return id;
}

/** The job goes on, and its result is the tab's and right. */
export async function finish({ swarm, tab }, id) {
  await swarm.pause(id, 0, false);
  const done = await swarm.finished(id);
  assert.equal(done.state, "done", done.reason);
  const [result] = await swarm.results(id);
  assert.equal(result.runner, tab.node);
  assert.equal(stdout(result), (await execute(native("ballast"), WORK)).stdout);
}
