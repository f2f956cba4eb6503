// Jobs with requirements in the real swarm: twelve native processes with different labels and memory, and two tabs.

import assert from "node:assert/strict";
import { Swarm, guest, test } from "./harness.mjs";

const GIB = 1 << 30;

/** Name, town, memory of a unit in MB, and whether it says that it has a graphics card. */
const WORKERS = [
  ["ada", "graz", 512, false], ["bob", "graz", 512, false], ["cyd", "graz", 2048, true], ["dan", "graz", 2048, false],
  ["eve", "wien", 512, false], ["fay", "wien", 512, false], ["gil", "wien", 2048, true], ["hal", "wien", 2048, false],
  ["ida", "linz", 512, false], ["jan", "linz", 512, false], ["kim", "linz", 2048, false],
];

async function worker(swarm, [name, site, memory, card]) {
  await swarm.policy(name, `max_task_memory_mb = ${memory}\n`);
  return swarm.worker(name, 1, "--label", `site=${site}`, ...(card ? ["--label", "gpu=yes"] : []));
}

test("200 jobs of three kinds run where they may, though their owner and a node that runs some are killed", { timeout: 600_000 }, async (t) => {
  const swarm = await Swarm.start(t);
  const workers = [];
  for (const one of WORKERS) workers.push(await worker(swarm, one));
  for (const name of ["lea", "max"]) await swarm.donor(name);
  const nodes = await swarm.nodes((nodes) => nodes.filter(({ slots }) => slots > 0).length === 13);
  const named = (...names) => nodes.filter(({ name }) => names.includes(name)).map(({ id }) => id);
  const kinds = [
    [{ platform: "browser" }, named("lea", "max")],
    [{ memory: GIB, labels: { site: "graz" } }, named("cyd", "dan")],
    [{ os: "linux", labels: { gpu: "yes" } }, named("cyd", "gil")],
  ];
  assert.ok(kinds.every(([, able]) => able.length === 2));

  const program = await swarm.upload(guest("nqueens"));
  const jobs = [];
  for (let n = 0; n < 200; n += 1) {
    const [requires, able] = kinds[n % 3];
    const { id } = await swarm.submit({ program, arguments: ["9"], requires });
    jobs.push({ id, able, requires });
  }
  await swarm.finished(jobs[20].id);
  await Promise.all([swarm.gateway.kill(), workers[6].kill()]);
  await swarm.restartGateway();

  const by = new Set();
  for (const { id, able, requires } of jobs) {
    const { state, reason, by_node: shares } = await swarm.finished(id);
    assert.equal(state, "done", reason);
    const runners = shares.filter(({ units }) => units > 0).map(({ node }) => node);
    assert.ok(runners.length === 1 && able.includes(runners[0]), `${JSON.stringify(requires)} ran at ${JSON.stringify(shares)}`);
    by.add(runners[0]);
  }
  assert.ok(by.size >= 4, "nodes share the work");
});

test("the form asks what a node must have, and a job that waits says why", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const graz = await worker(swarm, WORKERS[0]);
  const page = await swarm.tab(`/dashboard#token=${swarm.gateway.token}`);
  await page.getByRole("link", { name: "Submit", exact: true }).click();
  await page.locator("#program").setInputFiles(guest("nqueens"));
  await page.getByLabel("Arguments").fill("8");
  await page.getByText("What a node must have").click();
  await page.getByLabel("Labels").fill("site");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByText("is no label").waitFor();
  await page.getByLabel("Labels").fill("site=linz");
  await page.getByLabel("Servers or pages").selectOption("Servers");
  await page.getByText("labels, servers").waitFor();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByRole("region", { name: "Progress" }).getByText("has what it requires").waitFor();
  await page.getByText("a server, site=linz").waitFor();
  await page.getByText("about 0 of 2").waitFor();
  const [waits] = (await swarm.api("jobs")).jobs;
  const { fitting } = await swarm.api(`jobs/${waits.id}`);
  assert.deepEqual(fitting.requires, { platform: "native", labels: { site: "linz" } });
  assert.equal(fitting.waits.able, 0);
  const linz = await worker(swarm, ["lin", "linz", 512, false]);
  const done = await swarm.finished(waits.id);
  assert.deepEqual(done.by_node.map(({ node }) => node), [linz.node]);
  assert.notEqual(linz.node, graz.node);
  assert.deepEqual(swarm.troubles, []);
});
