// Servers behind routers and walls that work for each other: over data channels where their routers let them, else by
// way of the gateway that they share.

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
  const ada = await lab.machine("ada", { behind: await lab.router("ada-router") });
  await ada.up("--gateway", "--slots", "0", ...JOIN);
  const invite = await bank.machine.manyhands("wallet", "invite", "1000", "--output", "json");
  assert.equal(invite.code, 0, invite.stderr);
  const redeemed = await ada.manyhands("wallet", "redeem", JSON.parse(invite.stdout).code);
  assert.equal(redeemed.code, 0, redeemed.stderr);
  return { lab, bank, ada };
}

/** A seller that is connected to the bank's gateway alone: the id of its node, and its machine. */
async function seller({ lab, bank }, name, cost, place) {
  const machine = await lab.machine(name, place);
  const set = await machine.manyhands("policy", "set", `marginal_cost=${cost}`, "--data", "seller");
  assert.equal(set.code, 0, set.stderr);
  await machine.up("--data", "seller", "--slots", "1", "--speed", "500000000", ...JOIN);
  const { nodes } = await bank.until(() => bank.api("nodes"), ({ nodes }) => nodes.some((node) => node.name === name));
  const { id } = nodes.find((node) => node.name === name);
  const cycles = ({ commodities }) => commodities.filter(({ kind }) => kind === "cycles").flatMap(({ offers }) => offers);
  await bank.until(() => bank.api("market"), (market) => cycles(market).some((offer) => offer.seller === id), 120_000);
  return { id, machine };
}

/** Has the machine's gateway buy places for so many units of so many rounds; the job when it has ended. */
async function buy(machine, units, rounds = 300_000) {
  const job = `
    program = "${guest("ballast")}"
    arguments = ["4", "${rounds}"]
    sweep = { first = 1, count = ${units} }
    find = "cheapest"
    max_price = ${500 * CREDIT}
    fuel_limit = ${rounds * 300_000}
  `;
  const typed = `cat >job.toml && exec "${BINARY}" submit job.toml --wait --output json`;
  const told = await machine.run("sh", ["-c", typed], { stdin: job });
  assert.equal(told.code, 0, told.stderr);
  return JSON.parse(told.stdout);
}

/** Nodes that the machine's gateway knows. */
async function nodes(machine) {
  const listed = await machine.manyhands("nodes", "--output", "json");
  assert.equal(listed.code, 0, listed.stderr);
  return JSON.parse(listed.stdout).nodes;
}

/** How the machine's gateway is connected to each of these nodes, and by way of whom. */
async function connections(machine, ids) {
  const all = await nodes(machine);
  return ids.map((id) => all.find((node) => node.id === id)).map((node) => [node?.connection, node?.via ?? null]);
}

/** Waits until the machine's gateway, which nobody outside can ask, is connected to the node by this; the node. */
async function connected(machine, id, connection) {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const node = (await nodes(machine)).find((node) => node.id === id);
    if (node?.connection === connection) return node;
    assert.ok(performance.now() < deadline, `not by ${connection} within a minute: ${JSON.stringify(node)}`);
  }
}

test("servers behind routers and a wall work for a gateway behind another router, each by the best way there is", async (t) => {
  const swarm = await start(t);
  const { lab, bank, ada } = swarm;
  const behind = async (name, options) => ({ behind: await lab.router(`${name}-router`, options) });
  // Known by its v4 address: a node behind a v4 router asks it what is for sale.
  await seller(swarm, "carl", 900_000, { v6: false });
  const { id: bob } = await seller(swarm, "bob", 1000, await behind("bob"));
  const { id: sue } = await seller(swarm, "sue", 2000, await behind("sue", { symmetric: true }));
  const { id: walt } = await seller(swarm, "walt", 3000, { ...(await behind("walt")), udp: "drop" });
  const job = await buy(ada, 3);
  assert.equal(job.state, "done", job.reason);
  assert.deepEqual(job.by_node.map(({ node }) => node).sort(), [bob, sue, walt].sort());
  const relayed = ["relay", (await bank.api("network")).node];
  assert.deepEqual(await connections(ada, [bob, sue, walt]), [["webrtc", null], relayed, relayed]);
});

test("a wall opens, and a data channel takes the gateway's place while the unit goes on", async (t) => {
  const swarm = await start(t);
  const { lab, ada } = swarm;
  await seller(swarm, "carl", 9000, { v6: false });
  const walled = { behind: await lab.router("walt-router"), udp: "drop" };
  const walt = await seller(swarm, "walt", 1000, walled);
  const job = buy(ada, 1, 10_000_000);
  // Awaited below, unless what comes before it fails.
  job.catch(() => {});
  await connected(ada, walt.id, "relay");
  await lab.openUdp(walt.machine);
  const { held } = await connected(ada, walt.id, "webrtc");
  assert.equal(held, 1, "it is still at work");
  const { state, reason, by_node } = await job;
  assert.equal(state, "done", reason);
  assert.deepEqual(by_node.map(({ node, units }) => [node, units]), [[walt.id, 1]]);
});
