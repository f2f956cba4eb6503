// Two hundred workers that only dial, at one gateway: all of their slots are used, nobody is blamed, nobody
// is cut off.
//
//   MANYHANDS=target/release/manyhands MANYHANDS_GUESTS=200 node --test tests/long/guests.mjs

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const BINARY = process.env.MANYHANDS ?? "target/release/manyhands";
const GUESTS = Number(process.env.MANYHANDS_GUESTS ?? 200);
/** Workers that are started at a time: each opens its storage, which is work for the disk. */
const BATCH = 10;

/** `(module (memory (export "memory") 1) (func (export "_start") (loop (br 0))))` */
const FOREVER = Buffer.from(
  "0061736d01000000010401600000030201000503010001" +
    "071302066d656d6f72790200065f737461727400000a0901070003400c000b0b",
  "hex",
);

/** A process that is ready when it has said so on its standard output. */
class Up {
  constructor(data, args) {
    this.stderr = "";
    this.child = spawn(BINARY, ["up", "--ready-json", "--data", data, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, HOME: data, MANYHANDS_CONFIG: join(data, "..", "config.toml") },
    });
    this.child.stderr.on("data", (bytes) => { this.stderr += bytes; });
    this.ended = new Promise((resolve) => this.child.on("exit", (code, signal) => resolve(code ?? signal)));
    this.ready = new Promise((resolve, reject) => {
      createInterface(this.child.stdout).once("line", (line) => {
        const ready = JSON.parse(line);
        resolve({ ...ready, token: ready.token_file && readFileSync(ready.token_file, "utf8").trim() });
      });
      this.ended.then((how) => reject(new Error(`it ended with ${how}: ${this.stderr}`)));
    });
    this.ready.catch(() => {});
  }

  async end() {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until `is`, and fails with what there was last. */
async function until(what, ask, is, seconds) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const last = await ask();
    if (is(last)) return last;
    assert.ok(Date.now() < end, `after ${seconds} s not yet: ${what}: ${JSON.stringify(last).slice(0, 2000)}`);
    await pause(250);
  }
}

const memory = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);

test(`${GUESTS} guests give all their slots to one gateway`, { timeout: 1_800_000 }, async (t) => {
  const root = await mkdtemp(join(tmpdir(), "manyhands-guests-"));
  const all = [];
  t.after(async () => {
    await Promise.all(all.map((up) => up.end()));
    await rm(root, { recursive: true, force: true });
  });
  await writeFile(join(root, "config.toml"), "");
  const start = (name, args) => {
    const up = new Up(join(root, name), args);
    all.push(up);
    return up;
  };
  const gateway = start("gateway", ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0"]);
  const { http, token } = await gateway.ready;
  const api = async (path, options = {}) => {
    const headers = { authorization: `Bearer ${token}`, ...options.headers };
    const answer = await fetch(`${http}/api/v1/${path}`, { ...options, headers });
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
    return answer.status === 204 ? null : answer.json();
  };
  const before = memory(gateway.child.pid);
  const speed = ["--slots", "1", "--speed", "1000000000", "--dial-only"];
  for (let n = 0; n < GUESTS; n += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, GUESTS - n) }, (_, at) =>
      start(`guest-${n + at}`, ["--join", http, "--name", `guest ${n + at}`, ...speed]));
    await Promise.all(batch.map((up) => up.ready));
  }
  const guests = async () => (await api("nodes")).nodes.filter((node) => !node.me);
  const here = await until("all are connected", guests, (nodes) => nodes.length === GUESTS, 60);
  assert.ok(here.every((node) => node.guest), "each is a guest");
  t.diagnostic(`gateway's memory: ${before} KB alone, ${memory(gateway.child.pid)} KB with ${GUESTS} guests`);

  const file = join(root, "forever.wasm");
  const job = join(root, "job.toml");
  await writeFile(file, FOREVER);
  await writeFile(job, `program = "forever.wasm"\nsweep = { count = ${GUESTS} }\n`);
  const submitted = spawn(BINARY, ["submit", job, "--data", join(root, "gateway"), "--output", "json"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env.PATH, HOME: root, MANYHANDS_CONFIG: join(root, "config.toml") },
  });
  const lines = createInterface(submitted.stdout);
  let said = "";
  for await (const line of lines) said += line;
  const { id } = JSON.parse(said);
  await until("all slots are used", guests, (nodes) => nodes.every((node) => node.free === 0), 300);
  await api(`jobs/${id}`, { method: "DELETE" });
  await until("all slots are free again", guests, (nodes) => nodes.every((node) => node.free === 1), 300);
  const last = await guests();
  assert.equal(last.length, GUESTS, "all are still connected");
  for (const up of all) {
    const bad = up.stderr.split("\n").filter((line) => /fault|disconnected|not let in/.test(line));
    assert.deepEqual(bad, [], "nobody was blamed or cut off");
  }
  t.diagnostic(`gateway's memory afterwards: ${memory(gateway.child.pid)} KB`);
});
