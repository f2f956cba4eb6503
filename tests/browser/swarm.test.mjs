// The promise of the whole: what was accepted is computed, rightly and once, whoever leaves.

import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { ROOT, Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

const UNITS = 500;
const UNITS_AFTER = 300;
const BERLIN = join(ROOT, "examples/tsp/data/berlin52.tsp");
const search = (seed, file) => ["--seed", String(seed), "--generations", "600", file];

/** Lists what each unit has to print, as the same program says that was compiled for this machine. */
async function expected(first, count) {
  const answers = new Array(count);
  let next = 0;
  const helper = async () => {
    for (let i = next++; i < count; i = next++) {
      const { code, stdout, stderr } = await execute(native("tsp"), search(first + i, BERLIN));
      assert.equal(code, 0, stderr);
      answers[i] = stdout;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, helper));
  return answers;
}

/** Every result right, none missing, none twice. */
async function assertComplete(swarm, job, answers) {
  const ended = await swarm.finished(job.id);
  assert.equal(ended.state, "done", ended.reason);
  assert.equal(ended.units.done, answers.length);
  assert.equal(ended.by_node.reduce((sum, node) => sum + node.units, 0), answers.length);
  const results = await swarm.results(job.id);
  assert.deepEqual(results.map((result) => result.index), answers.map((_, index) => index));
  for (const result of results) {
    assert.ok(result.success, `unit ${result.index}: ${result.message}`);
    assert.equal(stdout(result), answers[result.index], `unit ${result.index}`);
  }
  return ended;
}

test("500 units survive a killed worker and a closed tab, and the next job a killed gateway", async (t) => {
  const swarm = await Swarm.start(t);
  // Half of a processor each: two tabs share it with them.
  const ada = await swarm.worker("ada", 1, "--cpu-share", "50");
  const grace = await swarm.worker("grace", 1, "--cpu-share", "50");
  const alan = await swarm.donor("alan");
  await swarm.donor("edsger");
  const donors = ["ada", "grace", "alan", "edsger"];
  const joined = await swarm.nodes((nodes) => donors.every((name) => nodes.some((node) => node.name === name && node.slots > 0)));
  assert.deepEqual(joined.filter((node) => node.platform === "browser").map((node) => node.name).sort(), ["alan", "edsger"]);
  const who = Object.fromEntries(joined.map((node) => [node.id, node.name]));
  const gave = (job) => job.by_node.filter((row) => row.units > 0).map((row) => who[row.node]).sort();

  const [program, berlin] = await Promise.all([swarm.upload(guest("tsp")), swarm.upload(BERLIN)]);
  const sweep = (name, first, count) =>
    swarm.submit({
      name,
      program,
      arguments: search("{}", "berlin52.tsp"),
      files: [{ path: "berlin52.tsp", blob: berlin }],
      sweep: { first, count },
    });
  const [first, second] = [await expected(1, UNITS), await expected(1001, UNITS_AFTER)];

  await t.test("a worker is killed and a tab closed half-way", async () => {
    const job = await sweep("half the hands leave", 1, UNITS);
    // On a busy machine one of them may have its first unit late.
    const half = await swarm.follow(job.id, (job) => job.units.done >= UNITS / 2 && gave(job).length === donors.length);
    assert.ok(half.units.done < UNITS, "it was over before anyone could leave");
    await Promise.all([ada.kill(), alan.close()]);
    const ended = await assertComplete(swarm, job, first);
    assert.deepEqual(gave(ended), [...donors].sort(), "all four took part");
    await swarm.nodes((nodes) => !nodes.some((node) => ["ada", "alan"].includes(node.name)));
  });

  await t.test("the gateway is killed in the middle of a job and comes back", async () => {
    const job = await sweep("the middle leaves", 1001, UNITS_AFTER);
    const begun = await swarm.follow(job.id, (job) => job.units.done >= UNITS_AFTER / 5);
    await swarm.gateway.kill();
    assert.ok(begun.units.done < UNITS_AFTER, "it was over before the gateway could be killed");
    await swarm.restartGateway();
    const back = await swarm.api(`jobs/${job.id}`);
    assert.ok(back.units.done >= begun.units.done, "what was done before is done after");
    const ended = await assertComplete(swarm, job, second);
    assert.deepEqual(gave(ended), ["edsger", "grace"], "both that stayed took part");
    // The first job's results are still there.
    assert.equal((await swarm.results((await swarm.api("jobs")).jobs.at(-1).id)).length, UNITS);
  });

  await grace.kill("SIGTERM");
  assert.deepEqual(swarm.troubles, []);
});
