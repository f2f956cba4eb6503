// Links that are cut and healed, and a gateway that restarts, with work under way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openGateway } from "./kinds.mjs";
import { Lab } from "./lab.mjs";
import { BINARY, guest } from "./machine.mjs";
import { standing } from "./node.mjs";

const JOIN = ["--join", "http://gateway.example:8080", "--slots", "1"];

/** Starts a job that lasts longer than any story: units of about 50 ms of a processor. Gives its id. */
async function endless(gateway) {
  const job = `
    name = "numbers"
    program = "${guest("xorshift")}"
    arguments = ["{}"]
    sweep = { first = 1, count = 100000 }
  `;
  const submit = `cat >job.toml && exec "${BINARY}" submit job.toml --output json`;
  const told = await gateway.machine.run("sh", ["-c", submit], { stdin: job });
  assert.equal(told.code, 0, told.stderr);
  return JSON.parse(told.stdout).id;
}

/** Waits until each of these nodes has done units of the job that it had not done before. */
async function worksOn(gateway, job, nodes) {
  const units = ({ by_node }, id) => by_node.find(({ node }) => node === id)?.units ?? 0;
  const before = await gateway.api(`jobs/${job}`);
  const done = (now) => nodes.every((id) => units(now, id) > units(before, id));
  const after = await gateway.until(() => gateway.api(`jobs/${job}`), done);
  assert.equal(after.units.failed, 0);
}

/** Waits until the gateway lists all of these machines, or none; gives their nodes' ids. */
async function listed(gateway, names, there = true) {
  const all = await gateway.until(standing, (all) => names.every((name) => (name in all) === there));
  return names.map((name) => all[name]?.id);
}

test("a link that is cut costs no unit, and its node works again when it is healed", async (t) => {
  const lab = await Lab.start(t);
  const gateway = await openGateway(lab, "--slots", "0");
  const ada = await lab.machine("ada");
  const bob = await lab.machine("bob");
  for (const machine of [ada, bob]) await machine.up(...JOIN);
  const ids = await listed(gateway, ["ada", "bob"]);
  const job = await endless(gateway);
  await worksOn(gateway, job, ids);
  await ada.cut();
  await listed(gateway, ["ada"], false);
  await worksOn(gateway, job, [ids[1]]);
  await ada.heal();
  await worksOn(gateway, job, ids);
});

test("workers behind routers come back to a gateway that restarts, and go on with its job", async (t) => {
  const lab = await Lab.start(t);
  const gateway = await openGateway(lab, "--slots", "0");
  for (const [name, symmetric] of [["ada", false], ["bob", true]]) {
    const machine = await lab.machine(name, { behind: await lab.router(`${name}-router`, { symmetric }) });
    await machine.up(...JOIN);
  }
  const ids = await listed(gateway, ["ada", "bob"]);
  const job = await endless(gateway);
  await worksOn(gateway, job, ids);
  for (const signal of ["SIGKILL", "SIGTERM"]) {
    await gateway.kill(signal);
    await gateway.again();
    await worksOn(gateway, job, ids);
  }
});
