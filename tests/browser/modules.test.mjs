// The pages' modules without a page: a session's life, words and numbers, streams of events.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { percent, size, span } from "../../www/format.js";
import { capacityWords, rangeWords } from "../../www/market.js";
import { credits, inCredits, microOf } from "../../www/money.js";
import { steps, waits } from "../../www/plot.js";
import { events } from "../../www/live.js";
import { Session } from "../../www/session.js";
import { environmentOf, labelsOf, pathFault, programFault, splitWords } from "../../www/words.js";

class FakeWorker {
  static all = [];
  heard = [];
  ended = false;
  constructor() {
    FakeWorker.all.push(this);
  }
  postMessage(message) {
    this.heard.push(message);
  }
  terminate() {
    this.ended = true;
  }
  says(data) {
    this.onmessage({ data });
  }
  works(units_done, cpu_us) {
    this.says({ type: "status", state: "connected", work: { slots: 1, busy: 1, units_done, cpu_us, current: [] } });
  }
}

/** A session whose Workers and clock are the test's. */
function session(t) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  FakeWorker.all = [];
  return new Session(() => new FakeWorker());
}
const newest = () => FakeWorker.all.at(-1);
const GIVEN = { gateway: "http://127.0.0.1:8080", slots: 2 };

test("a session makes no Worker before it is started, and one after", (t) => {
  const it = session(t);
  assert.equal(FakeWorker.all.length, 0);
  it.start(GIVEN);
  assert.deepEqual(newest().heard, [{ type: "start", channels: false, ...GIVEN, last: null }], "it left nothing under any name, and node has no data channels");
  it.start(GIVEN);
  assert.equal(FakeWorker.all.length, 1, "a second click starts nothing");
});

test("Stop ends the Worker even when it does not answer", (t) => {
  const it = session(t);
  it.start(GIVEN);
  newest().works(3, 1e6);
  it.stop();
  t.mock.timers.tick(2500);
  assert.equal(newest().ended, false, "it may hand on what it was at, and say good-bye");
  t.mock.timers.tick(300);
  assert.equal(newest().ended, true);
  assert.equal(it.phase, "off");
  assert.equal(it.totals.units_done, 3);
});

test("after a panic a new Worker starts, with the slots of now, and the totals go on", (t) => {
  const it = session(t);
  it.start(GIVEN);
  newest().works(5, 2e6);
  it.setSlots(7);
  newest().says({ type: "fatal", message: "index out of bounds" });
  assert.equal(it.phase, "restarting");
  assert.equal(FakeWorker.all[0].ended, true);
  t.mock.timers.tick(1000);
  assert.equal(newest().heard[0].slots, 7);
  newest().works(2, 1e6);
  assert.deepEqual([it.totals.units_done, it.totals.cpu_us], [7, 3e6]);
});

test("a Worker that keeps failing is given up after five restarts, until somebody tries again", (t) => {
  const it = session(t);
  it.start(GIVEN);
  for (const wait of [1000, 2000, 4000, 8000, 16000]) {
    newest().says({ type: "fatal", message: "no" });
    t.mock.timers.tick(wait - 1);
    assert.equal(it.phase, "restarting");
    t.mock.timers.tick(1);
    assert.equal(it.phase, "starting");
  }
  newest().says({ type: "fatal", message: "no" });
  assert.equal(it.phase, "failed");
  t.mock.timers.tick(600_000);
  assert.equal(FakeWorker.all.length, 6);
  it.start(GIVEN);
  assert.equal(FakeWorker.all.length, 7);
});

test("a node may take a minute to come by a slow line, and ten seconds to begin once it is there", (t) => {
  const it = session(t);
  it.start(GIVEN);
  t.mock.timers.tick(59_000);
  assert.equal(it.phase, "starting");
  newest().says({ type: "loaded", name: "tab-1" });
  t.mock.timers.tick(9_999);
  assert.equal(it.phase, "starting");
  t.mock.timers.tick(1);
  assert.equal(it.phase, "restarting");
  assert.match(it.failure.message, /10 s after its program had come/);
  t.mock.timers.tick(1000);
  newest().says({ type: "loaded", name: "tab-1" });
  newest().works(1, 1);
  t.mock.timers.tick(3_600_000);
  assert.equal(it.phase, "connected", "one that has begun may be silent: it has nothing to tell");
});

test("a minute of good work makes the next failure a first one", (t) => {
  const it = session(t);
  it.start(GIVEN);
  newest().says({ type: "fatal", message: "no" });
  t.mock.timers.tick(1000);
  newest().works(1, 1);
  t.mock.timers.tick(61_000);
  newest().works(2, 2);
  newest().says({ type: "fatal", message: "no" });
  assert.equal(it.failure.restart, 1);
});

test("a Worker that was ended is not heard any more", (t) => {
  const it = session(t);
  it.start(GIVEN);
  const first = newest();
  first.says({ type: "fatal", message: "no" });
  t.mock.timers.tick(1000);
  first.works(99, 1);
  assert.equal(it.totals.units_done, 0);
});

test("arguments part as on a command line", () => {
  assert.deepEqual(splitWords(`--seed {} "two words" 'x "y"' a\\ b ""`).words, ["--seed", "{}", "two words", 'x "y"', "a b", ""]);
  assert.match(splitWords(`say "no`).fault, /not closed/);
});

test("an environment names what is wrong with it", () => {
  assert.deepEqual(environmentOf("A=1\n\nB=x=y").values, { A: "1", B: "x=y" });
  assert.match(environmentOf("A=1\nnonsense").fault, /Line 2/);
  assert.match(environmentOf("A=1\nA=2").fault, /twice/);
});

test("labels name what is wrong with them", () => {
  assert.deepEqual(labelsOf("site=graz, gpu=rtx-5090").values, { site: "graz", gpu: "rtx-5090" });
  assert.deepEqual(labelsOf("").values, {});
  assert.match(labelsOf("site").fault, /key=value/);
  assert.match(labelsOf("site=a b").fault, /“b”/);
  assert.match(labelsOf("site=a site=b").fault, /twice/);
});

test("paths that leave a task's own root are refused", () => {
  for (const path of ["", "/etc/passwd", "a//b", "../x", "a/./b", "x".repeat(256)]) assert.ok(pathFault(path), path);
  assert.equal(pathFault("data/in put.txt"), null);
});

test("what is no module is called by what it is", () => {
  const says = (...bytes) => programFault(new Uint8Array(bytes), bytes.length);
  assert.equal(says(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), null);
  assert.match(says(0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0), /component/);
  assert.match(says(0x7f, 0x45, 0x4c, 0x46), /Linux/);
  assert.match(says(...new TextEncoder().encode(";; hi\n(module)")), /text/);
  assert.match(says(), /empty/);
});

test("numbers read as people say them", () => {
  assert.deepEqual([0, 0.004, 3.21, 59.6, 200, 18_120, 100_000].map(span), ["0 s", "4 ms", "3.2 s", "1 min", "3 min 20 s", "5 h 2 min", "1 d 3 h"]);
  assert.deepEqual([1, 999, 4200, 999_950, 18e6].map(size), ["1 byte", "999 bytes", "4.2 kB", "1.0 MB", "18 MB"]);
  assert.deepEqual([[0, 9], [1, 10_000], [9999, 10_000], [5, 5]].map(([a, b]) => percent(a, b)), ["0 %", "< 1 %", "99 %", "100 %"]);
});

test("events are read however the bytes are cut", async () => {
  const text = ': hello\n\nevent: job\r\ndata: {"name":"ä"}\r\n\r\nevent: nodes\ndata: {}\n\ndata: broken{\n\n';
  const whole = [];
  for (const cut of [1, 2, 3, 7, 1000]) {
    const bytes = new TextEncoder().encode(text);
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += cut) controller.enqueue(bytes.slice(at, at + cut));
        controller.close();
      },
    });
    const seen = [];
    for await (const event of events(body)) seen.push(event);
    whole.push(seen);
  }
  for (const seen of whole) {
    assert.deepEqual(seen, [{ name: "job", data: { name: "ä" } }, { name: "nodes", data: {} }, { name: "message", data: null }]);
  }
});

test("credit is shown and read exactly, to the last micro-credit", () => {
  assert.deepEqual([0, 1, 1_000_000, 12_500_000, -2_000_001, Number.MAX_SAFE_INTEGER].map(credits),
    ["0", "0.000001", "1", "12.5", "−2.000001", "9,007,199,254.740991"]);
  assert.equal(inCredits(1_000_000), "1 credit");
  assert.deepEqual(["0.000001", " 12.5 ", "7", ".5", "3.", "9007199254.740991"].map(microOf).map(String),
    ["1", "12500000", "7000000", "500000", "Error: Write an amount in credits, such as 10 or 0.25.", "9007199254740991"]);
  for (const none of ["", ".", "ten", "-1", "1e3", "1,5", "0", "0.0", "1.0000001", "9007199254.740992"]) {
    assert.ok(microOf(none) instanceof Error, none);
  }
});

test("capacities are in the words of people", () => {
  assert.equal(rangeWords("cycles", 2 ** 29, 759_250_124), "0.5 to 0.8 thousand million fuel/s");
  assert.equal(rangeWords("cycles", 1 << 20, 1_482_910), "1 to 1.5 million fuel/s");
  assert.equal(rangeWords("files", 2 ** 29, 759_250_124), "512 to 724 MiB");
  assert.equal(capacityWords("checkpoints", 3 * 2 ** 40), "3 TiB");
});

test("a balance is drawn as steps in time, and by its order when all is of one moment", () => {
  const at = (ms) => new Date(ms).toISOString();
  const line = (ms, value) => ({ at: at(ms), value });
  assert.deepEqual(steps([line(0, 5), line(500, 10), line(1000, 0)]), { path: "M0 70H300V4H600V136", top: 10 });
  assert.equal(steps([line(7, 1), line(7, 1), line(7, 1)]).path, "M0 4H300V4H600V4");
  assert.equal(steps([line(0, 0), line(1, 0)]).path, "M0 136H600V136", "nothing at all is a line at the bottom");
});

test("waits of a job are told by its queue: how long half of its units waited, and the longest", () => {
  const queue = (...steps) => steps.map(([s, waiting]) => ({ at: new Date(s * 1000).toISOString(), waiting }));
  assert.equal(waits(queue([0, 10], [2, 6], [5, 4], [60, 0])), "half waited less than 5.0 s, the longest 1 min");
  assert.equal(waits(queue([0, 10], [2, 6], [4, 8], [9, 6])), "half waited less than 2.0 s, the longest 9.0 s", "some came back");
  assert.equal(waits(queue([0, 3])), "", "none found one");
});

const www = (name) => readFile(new URL(`../../www/${name}`, import.meta.url), "utf8");

/** The modules that these need before they run, themselves included. */
async function needed(...names) {
  const all = new Set();
  for (let name = names.pop(); name; name = names.pop()) {
    if (all.has(name)) continue;
    all.add(name);
    for (const [, other] of (await www(name)).matchAll(/^import [^;]*? from "\.\/([^"]+)";/gm)) names.push(other);
  }
  return all;
}

test("a page preloads what its first view needs, and nothing else", async () => {
  for (const [page, script, ...first] of [["index.html", "donate.js"], ["run.html", "run.js"], ["dashboard.html", "dashboard.js", "overview.js"]]) {
    const preloads = [...(await www(page)).matchAll(/<link rel="modulepreload" href="\/([^"]+)">/g)].map(([, name]) => name);
    const all = await needed(script, ...first);
    all.delete(script);
    assert.deepEqual(preloads, [...all].sort(), page);
  }
});

test("the dashboard's frame needs no view", async () => {
  const frame = await needed("dashboard.js");
  const views = [...(await www("dashboard.js")).matchAll(/ import\("\.\/([^"]+)"\)/g)].map(([, name]) => name);
  assert.ok(views.length >= 9, `${views}`);
  assert.deepEqual(views.filter((name) => frame.has(name)), []);
});
