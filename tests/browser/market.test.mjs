// The market in the real swarm: eight native processes that sell at different costs, two tabs that
// give what they have for nothing, and a bank.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BINARY, Swarm, execute, guest } from "./harness.mjs";

const FUEL = 2_000_000_000;
const SPEED = 500_000_000;
const CREDIT = 1_000_000;

/** What `manyhands` prints as JSON, asked of the swarm's first gateway. */
async function command(swarm, ...args) {
  const at = ["--gateway", swarm.url, "--token", swarm.gateway.token, "--output", "json"];
  const { code, stdout, stderr } = await execute(BINARY, [...args, ...at]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

test("a job buys of the cheapest, who are paid what the rule gives", { timeout: 600_000 }, async (t) => {
  const swarm = await Swarm.start(t);
  const traders = [];
  for (let n = 1; n <= 7; n += 1) traders.push(await swarm.trader(`trader-${n}`, 100_000 * n, SPEED));
  await swarm.donor("ada");
  await swarm.donor("bob");
  const all = [swarm.gateway, ...traders];
  // They sell space for files, too.
  const cycles = (offers) => offers.filter(({ kind }) => kind === "cycles");
  const offers = cycles(await swarm.offers(all, (offers) => cycles(offers).length === 7));
  assert.deepEqual(offers.map(({ cost }) => cost).sort(), [1, 2, 3, 4, 5, 6, 7].map((n) => 100_000 * n));
  assert.ok(offers.every(({ capacity, units }) => capacity === SPEED && units === 1));

  // Without credit nothing is bought.
  const program = await swarm.upload(guest("xorshift"));
  const spec = { program, arguments: ["{}"], sweep: { first: 1, count: 2 }, fuel_limit: FUEL };
  const job = await swarm.submit({ ...spec, find: "cheapest", max_price: 10 * CREDIT });
  await swarm.follow(job.id, ({ reason }) => reason.includes("the bank puts nothing aside"));

  const { code } = await command(swarm, "wallet", "invite", "100");
  const wallet = await command(swarm, "wallet", "redeem", code);
  assert.equal(wallet.balance, 100 * CREDIT);

  const done = await swarm.finished(job.id);
  assert.equal(done.state, "done", done.reason);
  const results = await swarm.results(job.id);
  // The two cheapest did one each, at the cost of the third.
  const cheapest = traders.slice(0, 2).map(({ node }) => node);
  assert.deepEqual(results.map(({ runner }) => runner).sort(), [...cheapest].sort());
  const price = 300_000;
  const due = (fuel) => Math.ceil((fuel * price) / 1e9);
  const delta = 1000;
  for (const { fuel, paid } of results) assert.equal(paid, due(fuel) + delta);
  assert.equal(done.cost.paid, results.reduce((sum, { paid }) => sum + paid, 0));

  await swarm.wallet(({ held, pending }) => held === 0 && pending === 0);

  // Each statement says the same, at the node's own gateway and at the bank.
  let everything = 0;
  for (const trader of all) {
    const own = await swarm.api("wallet", { of: trader });
    const shown = await swarm.api(`wallet?node=${trader.node}`);
    assert.deepEqual([own.balance, own.statement], [shown.balance, shown.statement]);
    const lines = own.statement.map(({ amount }) => amount);
    assert.equal(lines.reduce((sum, amount) => sum + amount, 0), own.balance, "the statement adds up");
    const earned = own.statement.filter(({ why }) => why === "earned").map(({ amount }) => amount);
    const its = results.filter(({ runner }) => runner === trader.node);
    assert.deepEqual(earned, its.map(({ fuel }) => due(fuel)));
    assert.equal(shown.sum, 0);
    assert.equal(own.held, 0);
    everything += own.balance;
  }
  assert.equal(everything, 100 * CREDIT, "no credit was made or lost");
  assert.deepEqual(swarm.troubles, []);
});
