// Programs that nobody would write hop between servers' engines and V8: a server's engine begins,
// a slot's Worker of a page goes on from there for a turn, and other engines bring it to its end.
// Output, fuel, and every state in between are those of a run that was left alone.
//
//   MANYHANDS_HOPS=2000 MANYHANDS_SEED=70000 node --test tests/browser/hop.test.mjs

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Swarm, execute, native, test } from "./harness.mjs";

/** Programs; each hops three times. */
const PROGRAMS = Number(process.env.MANYHANDS_HOPS ?? 70);
const SEED = Number(process.env.MANYHANDS_SEED ?? 0);
/** Programs on their way at a time. */
const BATCH = 100;

async function hop(args, stdin) {
  const { code, stdout, stderr } = await execute(native("hop"), args, { stdin });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

/** In the page: two Workers as a node has them, one that compiles programs and one that learns them. */
function begin() {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const text = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const slots = [1, 2].map(() => new Worker("/task-worker.js", { type: "module" }));
  /** The slot's next message, which must be of one of these kinds. */
  const says = (slot, ...kinds) =>
    new Promise((yes, no) => {
      slot.onmessage = ({ data }) => {
        if (kinds.includes(data.type)) yes(data);
        else if (data.type !== "resumed") no(new Error(`it said ${JSON.stringify(data)}`));
      };
      slot.onerror = ({ message }) => no(new Error(message));
    });
  let module = 0;
  globalThis.hop = async ({ form, program, tasks }) => {
    module += 1;
    const [first, second] = slots;
    first.postMessage({ type: "prepare", module, program: bytes(program), form: bytes(form) });
    const { compiled, about, immobile, broken, refused } = await says(first, "prepared");
    if (immobile ?? broken ?? refused) throw new Error(immobile ?? broken ?? refused);
    second.postMessage({ type: "learn", module, compiled, about });
    const back = [];
    for (const [n, task] of tasks.entries()) {
      const slot = slots[n % 2];
      // It computes for a turn before it hears of the second.
      slot.postMessage({ type: "run", module, tasks: bytes(task) });
      slot.postMessage({ type: "snapshot", run: n + 1, stop: true });
      const said = await says(slot, "snapshot", "answers");
      back.push(said.type === "answers" ? { hop: n, answers: text(said.answers) } : { hop: n, shot: text(said.shot), sealed: text(said.sealed) });
    }
    for (const slot of slots) slot.postMessage({ type: "forget", module });
    return back;
  };
  return Promise.all(slots.map((slot) => says(slot, "ready")));
}

test("programs at random come to the same in every engine, wherever they are moved", { timeout: 3_600_000 }, async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  await page.evaluate(begin);
  const folder = await mkdtemp(join(tmpdir(), "manyhands-hop-"));
  t.after(() => rm(folder, { recursive: true }));
  const all = { programs: 0, bit_exact: 0, both: 0, hops: 0, ended: 0, fuel: 0 };
  for (let seed = SEED; all.programs < PROGRAMS; ) {
    const batch = await hop(["make", folder, Math.min(BATCH, PROGRAMS - all.programs), seed]);
    const back = [];
    for (const sent of batch) {
      for (const made of await page.evaluate((sent) => globalThis.hop(sent), sent)) back.push({ seed: sent.seed, ...made });
    }
    const tally = await hop(["finish", folder], JSON.stringify(back));
    for (const key of Object.keys(all)) all[key] += tally[key];
    seed = batch.at(-1).seed + 1;
  }
  t.diagnostic(JSON.stringify(all));
  assert.equal(all.hops + all.ended, PROGRAMS * 3);
  // A turn has its time, and a fast machine ends a short program in it.
  assert.ok(all.hops * 4 > PROGRAMS * 3, `${all.hops} are suspended in the browser, a quarter at least`);
  assert.deepEqual(swarm.troubles, []);
});
