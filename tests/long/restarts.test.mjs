// Restarts: a gateway in use, and the workers that work for it, are stopped and killed again and again.
// Each comes back, everybody answers, nothing is lost, and no process stays that should have ended.
//
//   MANYHANDS_RESTARTS=200   restarts of the gateway, and as many of a worker
//   MANYHANDS_SEED=1         draws who is stopped, how, and for how long it stays away
//   MANYHANDS_WITHIN=10      seconds in which everybody has to answer; 0: only measure
//   MANYHANDS_TAB=no         without a tab of a browser

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { setTimeout as pass } from "node:timers/promises";
import { Swarm, guest, stdout } from "../browser/harness.mjs";

const number = (name, usual) => Number(process.env[name] ?? usual);
const RESTARTS = number("MANYHANDS_RESTARTS", 200);
const SEED = number("MANYHANDS_SEED", 1);
const WITHIN = number("MANYHANDS_WITHIN", 10) * 1000;
const TAB = process.env.MANYHANDS_TAB !== "no";

/** Anything that takes longer hangs, ms. */
const HANGS = 60_000;

/** A process that is told to end has ended by then, ms: 15 s, and a little for a machine that is busy. */
const ENDS = 16_000;

/** Numbers below `n`, drawn from a seed (mulberry32). */
function drawing(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) % n;
  };
}

/** Fails with a sentence if `promise` takes longer than `limit` ms. Gives what it gives. */
async function within(limit, what, promise) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${what} took longer than ${limit / 1000} s`)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The processes of this machine: `[{pid, parent, state, began}]`. */
async function processes() {
  const folders = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const read = folders.map(async (pid) => {
    // It may end while it is looked at.
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { pid: Number(pid), state: fields[0], parent: Number(fields[1]), began: fields[19] };
  });
  return (await Promise.all(read)).filter((one) => one.began);
}

/** The slots of a node. */
const slotsOf = async (pid) => (await processes()).filter((one) => one.parent === pid);

async function areGone(slots) {
  const isOne = (now) => slots.some((slot) => slot.pid === now.pid && slot.began === now.began && now.state !== "Z");
  while ((await processes()).some(isOne)) await pass(50);
}

test("restarts of a gateway in use and of its workers", async (t) => {
  console.log(`seed ${SEED}, ${RESTARTS} restarts of the gateway and ${RESTARTS} of a worker`);
  const draw = drawing(SEED);
  const swarm = await Swarm.start(t, "--slots", "1");
  const workers = new Map();
  for (const name of ["ada", "bob"]) workers.set(name, await swarm.worker(name));
  if (TAB) await swarm.donor("edsger");
  const everybody = ["gateway", "ada", "bob", ...(TAB ? ["edsger"] : [])].sort();
  const here = (nodes) => nodes.filter((node) => node.slots > 0).map((node) => node.name).sort().join() === everybody.join();
  const json = { method: "POST", headers: { "Content-Type": "application/json" } };
  await within(HANGS, "the first meeting", swarm.nodes(here));

  // In use: credit, a file that others keep, and a job at each restart.
  const { code } = await swarm.api("wallet/invites", { ...json, body: JSON.stringify({ amount: 5_000_000 }) });
  await swarm.api("wallet/redeem", { ...json, body: JSON.stringify({ code }) });
  const { balance } = await swarm.api("wallet");
  const content = randomBytes(300_000);
  const file = await swarm.api("files?name=kept&copies=2&max_price=0", { method: "POST", body: content });
  const program = await swarm.upload(guest("nqueens"));
  const jobs = [];

  /** 64 units that together count the 92 ways on a board of eight columns, eight times. */
  const submit = async () => {
    const units = Array.from({ length: 64 }, (_, i) => ({ arguments: ["8", String(i % 8)] }));
    const job = await swarm.submit({ name: `job ${jobs.length}`, program, units });
    jobs.push(job.id);
    return job.id;
  };

  const took = { end: [], answer: [], meet: [], work: [] };
  const note = (what, since) => {
    const ms = Math.round(performance.now() - since);
    took[what].push(ms);
    return ms;
  };

  /** The API answers all that people look at. */
  const answers = () => Promise.all([
    fetch(`${swarm.url}/healthz`).then((answer) => assert.equal(answer.status, 200, "/healthz")),
    swarm.api("nodes"),
    swarm.api("jobs"),
    swarm.api("market"),
    swarm.api("files"),
    swarm.api("tree"),
    swarm.api("ring"),
    swarm.api("wallet"),
  ]);

  for (let round = 0; round < 2 * RESTARTS; round++) {
    const name = round % 2 === 0 ? "gateway" : draw(2) ? "ada" : "bob";
    const signal = draw(2) ? "SIGTERM" : "SIGKILL";
    const away = [0, 500, 3000, 6000][draw(4)];
    const story = `restart ${round} (${name}, ${signal}, ${away} ms away)`;
    const node = name === "gateway" ? swarm.gateway : workers.get(name);
    const last = await submit();
    const slots = await slotsOf(node.pid);

    const told = performance.now();
    const ended = await within(ENDS, `${story}: the end`, node.kill(signal));
    note("end", told);
    assert.equal(ended, signal === "SIGKILL" ? signal : 0, `${story}: ${node.log}`);
    await within(ENDS, `${story}: the end of its slots`, areGone(slots));

    await pass(away);
    const begun = performance.now();
    if (name === "gateway") await within(HANGS, `${story}: the start`, swarm.restartGateway("--slots", "1"));
    else workers.set(name, await within(HANGS, `${story}: the start`, swarm.worker(name)));
    await within(HANGS, `${story}: answers`, answers());
    const answered = note("answer", begun);
    await within(HANGS, `${story}: all are there again`, swarm.nodes(here));
    const met = note("meet", begun);

    const job = await within(HANGS, `${story}: the job`, swarm.finished(last));
    const worked = note("work", begun);
    assert.deepEqual([job.state, job.units.done], ["done", 64], `${story}: ${JSON.stringify(job)}`);
    const results = await swarm.results(last);
    assert.equal(results.reduce((sum, result) => sum + Number(stdout(result)), 0), 8 * 92, story);
    assert.equal((await swarm.api("wallet")).balance, balance, `${story}: the balance`);
    const fetched = await fetch(`${swarm.url}/api/v1/files/${file.id}/content`, {
      headers: { Authorization: `Bearer ${swarm.gateway.token}` },
    });
    assert.ok(content.equals(Buffer.from(await fetched.arrayBuffer())), `${story}: the file`);
    console.log(`${story}: ended after ${took.end.at(-1)} ms, answered after ${answered}, all there after ${met}, job after ${worked}`);
  }

  let known = 0;
  for (let cursor = ""; cursor !== null; ) {
    const page = await swarm.api(`jobs?limit=1000${cursor && `&cursor=${cursor}`}`);
    known += page.jobs.filter((job) => jobs.includes(job.id) && job.state === "done").length;
    cursor = page.next;
  }
  assert.equal(known, jobs.length, "every job is known, and done");

  const told = performance.now();
  const all = [...workers.values(), swarm.gateway];
  const slots = (await Promise.all(all.map((node) => slotsOf(node.pid)))).flat();
  const codes = await within(ENDS, "the end of all", Promise.all(all.map((node) => node.kill("SIGTERM"))));
  assert.deepEqual(codes, all.map(() => 0));
  await within(ENDS, "the end of all slots", areGone(slots));
  note("end", told);

  for (const [what, times] of Object.entries(took)) {
    const sorted = times.toSorted((a, b) => a - b);
    const over = times.filter((ms) => ms > 10_000).length;
    console.log(`${what}: median ${sorted[sorted.length >> 1]} ms, slowest ${sorted.at(-1)} ms, ${over} of ${times.length} over 10 s`);
  }
  const slow = [...took.answer, ...took.meet].filter((ms) => WITHIN && ms > WITHIN);
  assert.deepEqual(slow, [], `not everybody answered within ${WITHIN / 1000} s`);
});
