// Tabs and servers behind routers, and the gateway that they joined by stops: what they work at goes on.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openGateway } from "./kinds.mjs";
import { Lab } from "./lab.mjs";
import { BINARY, guest } from "./machine.mjs";
import { openTab } from "./tab.mjs";

const URL = "http://gateway.example:8080";
const JOIN = ["--join", URL];
/** Ways to place so many queens, and units that count them for a second or so each. */
const [QUEENS, PLACEMENTS, UNITS] = [14, 365_596, 120];

const TABS = ["edsger", "grace"];

/**
 * A gateway by which all have joined, another one that submits, and four nodes that nobody can dial: two tabs, and two
 * servers, one of them behind a router with a port for each connection.
 */
async function start(t) {
  const lab = await Lab.start(t);
  const gateway = await openGateway(lab, "--slots", "0");
  const other = await openOther(lab, gateway);
  const behind = async (name, options) => lab.machine(name, { behind: await lab.router(`${name}-router`, options) });
  // Two browsers share the processors with them.
  const server = async (name, options) => (await behind(name, options)).up("--slots", "1", "--cpu-share", "30", ...JOIN);
  await server("ada");
  await server("sue", { symmetric: true });
  for (const name of TABS) await openTab(t, await behind(name), URL);
  const guests = ["ada", "sue", ...TABS];
  const here = ({ nodes }) => guests.every((name) => nodes.some((node) => node.name === name && node.slots === 1));
  const { nodes } = await gateway.until(() => gateway.api("nodes"), here);
  // The other one is the second gateway of each by then.
  await other.until(() => other.api("nodes"), here);
  const ids = Object.fromEntries(guests.map((name) => [name, nodes.find((node) => node.name === name).id]));
  return { gateway, other, ids };
}

/**
 * A second gateway. Its id decides how many units of a job on the ring the first one owns: it begins anew with another id
 * until these are half of all, so that some are left when that one stops.
 */
async function openOther(lab, gateway) {
  const machine = await lab.machine("other");
  const { node: first } = await gateway.api("network");
  const open = ["--gateway", "--bind", "0.0.0.0", "--public-host", "other.example", "--slots", "0"];
  for (let life = 1; ; life += 1) {
    const other = await machine.up(...open, "--data", join(machine.home, `life-${life}`), ...JOIN);
    const id = await submit(other);
    const look = () => other.api(`jobs/${id}/units?limit=${UNITS}`);
    const half = ({ units }) => units.filter(({ owner }) => owner === first).length >= UNITS / 2;
    // Owners are found within a second or so; with another id none of this comes true.
    const enough = await other.until(look, half, 5000).then(() => true, () => false);
    const cancelled = await machine.run(BINARY, ["cancel", id], { env: other.env });
    assert.equal(cancelled.code, 0, cancelled.stderr);
    if (enough) return other;
    assert.ok(life < 12, "the first gateway owns less than half of a job's units, whichever id the other one has");
    await other.kill("SIGTERM");
  }
}

/** Has a gateway take a job whose units the ring owns; its id. */
async function submit({ machine, env }) {
  const job = `
    program = "${guest("nqueens")}"
    arguments = ["${QUEENS}"]
    sweep = { first = 1, count = ${UNITS} }
    owner = "ring"
  `;
  const typed = `cat >job.toml && exec "${BINARY}" submit job.toml --output json`;
  const told = await machine.run("sh", ["-c", typed], { stdin: job, env });
  assert.equal(told.code, 0, told.stderr);
  return JSON.parse(told.stdout).id;
}

test("a job on the ring, at tabs and servers behind routers, outlives the gateway by which they have joined", async (t) => {
  const { gateway, other, ids } = await start(t);
  const id = await submit(other);
  const done = (job, name) => job.by_node.find(({ node }) => node === ids[name])?.units ?? 0;
  // How the other gateway is connected to the tabs, which it cannot dial.
  const connection = (nodes, name) => String(nodes.find((node) => node.id === ids[name])?.connection);
  const look = async () => {
    const [job, { nodes }, { units }] = await Promise.all([
      other.api(`jobs/${id}`), other.api("nodes"), other.api(`jobs/${id}/units?limit=${UNITS}`),
    ]);
    const seen = JSON.stringify({ by: job.by_node, owners: units.map(({ owner, state }) => `${state} ${owner ?? "here"}`) });
    assert.notEqual(job.state, "done", `the job ended before tabs, servers and the gateway had a part in it: ${seen}`);
    return { job, nodes, units };
  };
  const { node: first } = await gateway.api("network");
  // The gateway still has units when it stops: it takes a moment until it owns some.
  const begun = ({ job, nodes, units }) =>
    units.some(({ owner, state }) => owner === first && state !== "done") &&
    [["ada", "sue"], TABS].every((kind) => kind.some((name) => done(job, name) > 0)) &&
    TABS.every((name) => /^(webrtc|relay)$/.test(connection(nodes, name)));
  const { job: before } = await other.until(look, begun, 120_000);
  gateway.signal("SIGSTOP");
  const job = await other.until(() => other.api(`jobs/${id}`), ({ state }) => state !== "running" && state !== "waiting", 180_000);
  assert.equal(job.state, "done", job.reason);
  for (const name of Object.keys(ids)) assert.ok(done(job, name) > done(before, name), `${name} went on: ${JSON.stringify(job.by_node)}`);
  const { results } = await other.api(`jobs/${id}/results?limit=${UNITS}&inline=65536`);
  assert.equal(results.length, UNITS);
  for (const { stdout } of results) {
    assert.match(Buffer.from(stdout.base64, "base64").toString(), new RegExp(`\\b${PLACEMENTS}\\b`));
  }
});
