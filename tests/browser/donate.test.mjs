// The donate page: starts on a click only, follows its slider, stops at once, and gets up again.

import assert from "node:assert/strict";
import { Swarm, guest, stdout, test } from "./harness.mjs";

const state = (page) => page.locator("#state");
const shows = (locator, text) => locator.filter({ hasText: text }).waitFor();

/** A job that keeps every slot busy for as long as a test takes. */
async function work(swarm, count = 2000) {
  const program = await swarm.upload(guest("xorshift"));
  return swarm.submit({ name: "numbers", program, arguments: ["{}"], sweep: { first: 1, count } });
}

test("nothing runs before the click, and after it a unit is done in this tab", async (t) => {
  const swarm = await Swarm.start(t);
  const job = await work(swarm, 4);
  const page = await swarm.tab();
  await shows(state(page), "Not started");
  assert.equal(page.workers().length, 0);
  assert.equal((await swarm.api("nodes")).nodes.length, 1);

  await page.getByRole("button", { name: "Start", exact: true }).click();
  const ended = await swarm.finished(job.id);
  assert.equal(ended.state, "done", ended.reason);
  const [first] = await swarm.results(job.id);
  assert.equal(stdout(first), "10402021961722309240\n");
  await shows(page.locator("#units-done"), "4");
  await shows(state(page), "Ready, waiting for work");
  const [tab] = (await swarm.api("nodes")).nodes.filter((node) => node.platform === "browser");
  assert.equal(tab.units_done, 4);
  assert.deepEqual(swarm.troubles, []);
});

test("the slider gives more slots and takes them back while units run", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada", 1);
  await work(swarm);
  const slots = (n) => swarm.nodes((nodes) => nodes.some((node) => node.platform === "browser" && node.slots === n && node.free === 0));
  await slots(1);
  await shows(state(page), "Computing");
  const slider = page.getByRole("slider");
  if (!(await slider.isEnabled())) return t.diagnostic("this machine has one core: there is nothing to slide");
  await slider.fill("2");
  await slots(2);
  await slider.fill("1");
  await slots(1);
  assert.deepEqual(swarm.troubles, []);
});

/** Nothing computes in a page any more: its slots have ended, or do so now. */
const noSlots = (page) => {
  const slots = page.workers().filter((worker) => worker.url().includes("task-worker"));
  return Promise.all(slots.map((worker) => worker.waitForEvent("close", { timeout: 10_000 })));
};

test("Stop ends everything at once, and the units run elsewhere", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada", 1);
  const job = await work(swarm, 40);
  await swarm.follow(job.id, (job) => job.units.done > 0);

  await page.getByRole("button", { name: "Stop" }).click();
  await shows(state(page), "Stopped");
  await swarm.nodes((nodes) => nodes.length === 1);
  const left = await swarm.api(`jobs/${job.id}`);
  assert.ok(left.units.done < 40, "it was over before it could be stopped");

  await swarm.worker("grace");
  assert.equal((await swarm.finished(job.id)).units.done, 40);
  await noSlots(page);
  assert.deepEqual(swarm.troubles, []);
});

test("Stop hands on what runs, and it goes on elsewhere where it stood", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada", 1);
  const program = await swarm.upload(guest("ballast"));
  // No checkpoint before its end: what moves is what Stop made to move. The unit is long enough for
  // a fast machine: a second is shown and a worker joins while it runs.
  const job = await swarm.submit({ name: "one", program, arguments: ["4", "5000000"], checkpoint: 3600 });
  await page.locator("#current .time").filter({ hasText: /^([1-9]\.\d|\d\d) s/ }).waitFor();
  const grace = await swarm.worker("grace");
  await swarm.nodes((nodes) => nodes.some((node) => node.name === "grace"));

  await page.getByRole("button", { name: "Stop" }).click();
  await shows(state(page), "Stopped");
  await noSlots(page);

  const ended = await swarm.finished(job.id);
  assert.equal(ended.state, "done", ended.reason);
  const [result] = await swarm.results(job.id);
  assert.equal(result.runner, grace.node);
  assert.deepEqual(result.journey.map((span) => span.platform), ["browser", "native"], JSON.stringify(result.journey));
  assert.ok(result.journey[0].to > 0, "the tab's work is part of it");
  assert.deepEqual(swarm.troubles, []);
});

test("a tab that gives a quarter of each core rests most of the time", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada", 1);
  await page.getByText("When and how much", { exact: true }).click();
  await page.getByLabel("How much of each core").selectOption("25");
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await swarm.nodes((nodes) => nodes.length === 2);
  const program = await swarm.upload(guest("ballast"));
  const began = performance.now();
  const job = await swarm.submit({ name: "one", program, arguments: ["1", "1200000"] });
  assert.equal((await swarm.finished(job.id)).state, "done");
  const took = (performance.now() - began) / 1000;
  const [result] = await swarm.results(job.id);
  assert.ok(result.cpu_s > 0.5, `too short to tell: ${result.cpu_s} s`);
  assert.ok(result.cpu_s < took * 0.4, `it computed ${result.cpu_s} of ${took} s`);
  assert.deepEqual(swarm.troubles, []);
});

test("a node that fails is started again, for all to see, and works on", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada", 1);
  const job = await work(swarm, 60);
  await swarm.follow(job.id, (job) => job.units.done > 0);

  // The clock breaks under the node: its next look at it ends the instance, as a panic does.
  const node = page.workers().find((worker) => worker.url().endsWith("/node-worker.js"));
  await node.evaluate(() => {
    performance.now = () => {
      throw new Error("the clock stopped");
    };
  });
  await shows(page.locator("#restarted"), "was started again");
  await shows(page.locator("#restarted"), "the clock stopped");
  assert.equal((await swarm.finished(job.id)).units.done, 60);
});

test("a gateway that asks for an invitation lets in who shows it", async (t) => {
  const swarm = await Swarm.start(t, "--invite", "mellon");
  const page = await swarm.tab();
  await page.getByLabel("Invitation").fill("wrong");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await shows(state(page), "did not let this tab in");
  assert.equal((await swarm.api("nodes")).nodes.length, 1);

  await page.getByLabel("Invitation").fill("mellon");
  await page.getByRole("button", { name: "Try again" }).click();
  await swarm.nodes((nodes) => nodes.length === 2);
  await shows(state(page), "Ready, waiting for work");
});
