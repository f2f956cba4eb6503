// Space for checkpoints is bought and paid in the real swarm: five native processes, no page.

import assert from "node:assert/strict";
import { Swarm, guest, test } from "./harness.mjs";

const FUEL = 300_000_000_000;
const SPEED = 500_000_000;
const CREDIT = 1_000_000;

test("a job that buys its places buys who keeps its checkpoints, and the keeper's statement says so", async (t) => {
  const swarm = await Swarm.start(t);
  const traders = [];
  for (let n = 1; n <= 4; n += 1) traders.push(await swarm.trader(`trader-${n}`, 100 * n, SPEED));
  const of = (offers, sold) => offers.filter(({ kind, cost }) => kind === sold && cost >= 100).length;
  const listed = (offers) => of(offers, "cycles") === 4 && of(offers, "checkpoints") === 4;
  await swarm.offers(listed);

  const post = (path, body) => swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const { code } = await post("wallet/invites", { amount: 100 * CREDIT });
  await post("wallet/redeem", { code });
  const program = await swarm.upload(guest("ballast"));
  const work = { program, arguments: ["4", "1500000"], checkpoint: 1, fuel_limit: FUEL };
  const job = await swarm.submit({ ...work, find: "cheapest", max_price: 20 * CREDIT });
  const done = await swarm.finished(job.id);
  assert.equal(done.state, "done", done.reason);
  await swarm.wallet(({ held, pending }) => held === 0 && pending === 0);

  const [{ runner, paid }] = await swarm.results(job.id);
  const lines = async (trader) => (await swarm.api(`wallet?node=${trader.node}`)).statement;
  const keepers = [];
  for (const trader of traders) {
    const kept = (await lines(trader)).filter(({ why }) => why === "kept");
    if (kept.length) keepers.push([trader.node, kept]);
  }
  assert.equal(keepers.length, 1, JSON.stringify(keepers));
  const [[keeper, kept]] = keepers;
  assert.notEqual(keeper, runner);
  assert.equal(kept.length, 1, "settled once");
  assert.ok(kept[0].amount > 0 && kept[0].amount < paid, `${kept[0].amount} of ${paid}`);
  const { balance, sum } = await swarm.api("wallet");
  const fees = (await lines(swarm.gateway)).filter(({ why }) => why === "fee").reduce((all, { amount }) => all + amount, 0);
  assert.deepEqual([balance, sum], [100 * CREDIT - paid + fees, 0]);
});
