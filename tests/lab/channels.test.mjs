// Servers behind routers that work for each other over data channels, where their routers let them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openGateway } from "./kinds.mjs";
import { Lab } from "./lab.mjs";
import { BINARY, guest } from "./machine.mjs";

const JOIN = ["--join", "http://gateway.example:8080"];
const CREDIT = 1_000_000;

/** Bank and gateway on the open network, and a gateway behind a router that has credit. */
async function start(t) {
  const lab = await Lab.start(t);
  const bank = await openGateway(lab, "--slots", "0");
  const machine = await lab.machine("ada", { behind: await lab.router("ada-router") });
  await machine.up("--gateway", "--slots", "0", ...JOIN);
  const invite = await bank.machine.manyhands("wallet", "invite", "1000", "--output", "json");
  assert.equal(invite.code, 0, invite.stderr);
  const redeemed = await machine.manyhands("wallet", "redeem", JSON.parse(invite.stdout).code);
  assert.equal(redeemed.code, 0, redeemed.stderr);
  return { lab, bank, ada: machine };
}

/** A seller; its node's id. It has no other connection than that to the bank's gateway. */
async function seller(lab, bank, name, cost, place) {
  const machine = await lab.machine(name, place);
  const set = await machine.manyhands("policy", "set", `marginal_cost=${cost}`, "--data", "seller");
  assert.equal(set.code, 0, set.stderr);
  await machine.up("--data", "seller", "--slots", "1", "--speed", "500000000", ...JOIN);
  const { nodes } = await bank.until(() => bank.api("nodes"), ({ nodes }) => nodes.some((node) => node.name === name));
  const { id } = nodes.find((node) => node.name === name);
  const cycles = ({ commodities }) => commodities.filter(({ kind }) => kind === "cycles").flatMap(({ offers }) => offers);
  await bank.until(() => bank.api("market"), (market) => cycles(market).some((offer) => offer.seller === id), 120_000);
  return id;
}

/** Has the machine's gateway buy a place for one unit; gives the job when it has ended, and the gateway's nodes. */
async function buy(machine) {
  const job = `
    program = "${guest("xorshift")}"
    arguments = ["7"]
    find = "cheapest"
    max_price = ${500 * CREDIT}
    fuel_limit = 2_000_000_000
  `;
  const typed = `cat >job.toml && exec "${BINARY}" submit job.toml --wait --output json`;
  const told = await machine.run("sh", ["-c", typed], { stdin: job });
  assert.equal(told.code, 0, told.stderr);
  const listed = await machine.manyhands("nodes", "--output", "json");
  return { job: JSON.parse(told.stdout), nodes: JSON.parse(listed.stdout).nodes };
}

test("a server behind a router works for a gateway behind another one, over a data channel", async (t) => {
  const { lab, bank, ada } = await start(t);
  const bob = await seller(lab, bank, "bob", 1000, { behind: await lab.router("bob-router") });
  // Known by its v4 address: a node behind a v4 router asks it what is for sale.
  await seller(lab, bank, "carl", 900_000, { v6: false });
  const { job, nodes } = await buy(ada);
  assert.equal(job.state, "done", job.reason);
  assert.deepEqual(job.by_node.map(({ node }) => node), [bob]);
  assert.equal(nodes.find(({ id }) => id === bob).connection, "webrtc");
});
