// The market in the real swarm: eight native processes, of which seven sell and one is the gateway and
// the bank, and two tabs that sell by way of it, all at different costs.

import assert from "node:assert/strict";
import { BINARY, Swarm, execute, guest, test } from "./harness.mjs";

const FUEL = 2_000_000_000;
const SPEED = 500_000_000;
const CREDIT = 1_000_000;

/** Runs a command of `manyhands` at the swarm's first gateway, and gives the JSON that it prints. */
async function command(swarm, ...args) {
  const at = ["--gateway", swarm.url, "--token", swarm.gateway.token, "--output", "json"];
  const { code, stdout, stderr } = await execute(BINARY, [...args, ...at]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

test("a job buys of the cheapest, who are paid what the rule gives", async (t) => {
  const swarm = await Swarm.start(t);
  const traders = [];
  for (let n = 1; n <= 7; n += 1) traders.push(await swarm.trader(`trader-${n}`, 100_000 * n, SPEED));
  const tabs = [await swarm.seller("ada", 50_000, `/?speed=${SPEED}`), await swarm.seller("bob", 250_000, `/?speed=${SPEED}`)];
  const all = [swarm.gateway, ...traders];
  // They sell space for files, too.
  const cycles = (offers) => offers.filter(({ kind }) => kind === "cycles");
  const offers = cycles(await swarm.offers((offers) => cycles(offers).length === 9));
  const costs = [50_000, 100_000, 200_000, 250_000, 300_000, 400_000, 500_000, 600_000, 700_000];
  assert.deepEqual(offers.map(({ cost }) => cost).sort((a, b) => a - b), costs);
  const browsers = offers.filter(({ engine }) => engine === "browser").map((offer) => offer.seller);
  assert.deepEqual(browsers.sort(), tabs.map(({ node }) => node).sort());
  assert.ok(offers.every(({ capacity, units }) => capacity === SPEED && units === 1));

  // Without credit nothing is bought.
  const program = await swarm.upload(guest("xorshift"));
  const spec = { program, arguments: ["{}"], sweep: { first: 1, count: 4 }, fuel_limit: FUEL };
  const job = await swarm.submit({ ...spec, find: "cheapest", max_price: 10 * CREDIT });
  await swarm.follow(job.id, ({ reason }) => reason.includes("the bank puts nothing aside"));

  const { code } = await command(swarm, "wallet", "invite", "100");
  const wallet = await command(swarm, "wallet", "redeem", code);
  assert.equal(wallet.balance, 100 * CREDIT);

  const done = await swarm.finished(job.id);
  assert.equal(done.state, "done", done.reason);
  const results = await swarm.results(job.id);
  // The four cheapest did one each, two servers and both tabs, at the cost of the fifth.
  const cheapest = [...traders.slice(0, 2), ...tabs].map(({ node }) => node);
  assert.deepEqual(results.map(({ runner }) => runner).sort(), [...cheapest].sort());
  const price = 300_000;
  const due = (fuel) => Math.ceil((fuel * price) / 1e9);
  const delta = 1000;
  for (const { fuel, paid } of results) assert.equal(paid, due(fuel) + delta);
  assert.equal(done.cost.paid, results.reduce((sum, { paid }) => sum + paid, 0));

  await swarm.wallet(({ held, pending }) => held === 0 && pending === 0);

  // Each statement says the same, at the node's own gateway and at the bank.
  let everything = 0;
  for (const { node, page } of tabs) {
    const account = await swarm.api(`wallet?node=${node}`);
    const [{ fuel }] = results.filter(({ runner }) => runner === node);
    assert.deepEqual(account.statement.map(({ why, amount }) => [why, amount]), [["earned", due(fuel)]]);
    assert.equal(account.balance, due(fuel));
    // The page shows it.
    const shown = String(due(fuel) / CREDIT);
    await page.waitForFunction((shown) => document.getElementById("balance").textContent === shown, shown);
    everything += account.balance;
  }
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

  // A tab measures its speed where nobody says it.
  const cleo = await swarm.seller("cleo");
  const found = await swarm.offers((offers) => offers.some((offer) => offer.seller === cleo.node));
  const { capacity, cost, minutes } = found.find((offer) => offer.seller === cleo.node);
  assert.ok(capacity > 10_000_000 && capacity !== SPEED, `${capacity} of fuel a second`);
  assert.deepEqual([cost, minutes], [1, 10]);
  assert.deepEqual(swarm.troubles, []);
});
