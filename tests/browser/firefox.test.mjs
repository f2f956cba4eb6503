// The donate page in the distribution's Firefox. All other tests open it in Chromium.

import assert from "node:assert/strict";
import { accessSync, constants } from "node:fs";
import { FIREFOX, Swarm, execute, guest, native, stdout, test } from "./harness.mjs";
import { SPEED, buy, finish, swarmOf } from "./second-gateway.mjs";

function installed() {
  try {
    accessSync(FIREFOX, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

// In CI a missing Firefox is a failure: its launch says what is missing.
const missing = `no Firefox at ${FIREFOX}: install Debian's firefox-esr, or name another one in FIREFOX`;
const options = { skip: !process.env.CI && !installed() && missing };

/** Opens the swarm's next tabs in Firefox. */
function inFirefox(swarm) {
  swarm.browser = "firefox";
  return swarm;
}

const state = (page) => page.locator("#state");
const shows = (locator, text) => locator.filter({ hasText: text }).waitFor();

test("in Firefox nothing runs before the click, and after it units are done in the tab", options, async (t) => {
  const swarm = inFirefox(await Swarm.start(t));
  const program = await swarm.upload(guest("xorshift"));
  const job = await swarm.submit({ program, arguments: ["{}"], sweep: { first: 1, count: 4 } });
  const page = await swarm.tab();
  assert.match(await page.evaluate(() => navigator.userAgent), /Firefox\//);
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

test("in Firefox Stop hands on what runs, and a server goes on where it stood", options, async (t) => {
  const work = ["4", "4000000"];
  const swarm = inFirefox(await Swarm.start(t));
  const page = await swarm.donor("ada");
  const program = await swarm.upload(guest("ballast"));
  // No checkpoint before its end: what moves is what Stop made to move. The unit is long enough for
  // a fast machine: a second is shown and a worker joins while it runs.
  const job = await swarm.submit({ program, arguments: work, checkpoint: 3600 });
  await page.locator("#current .time").filter({ hasText: /^([1-9]\.\d|\d\d) s/ }).waitFor();
  const grace = await swarm.worker("grace");
  await swarm.nodes((nodes) => nodes.some((node) => node.name === "grace"));

  await page.getByRole("button", { name: "Stop" }).click();
  await shows(state(page), "Stopped");
  const ended = await swarm.finished(job.id);
  assert.equal(ended.state, "done", ended.reason);
  const [result] = await swarm.results(job.id);
  assert.equal(result.runner, grace.node);
  assert.deepEqual(result.journey.map((span) => span.platform), ["browser", "native"], JSON.stringify(result.journey));
  assert.ok(result.journey[0].to > 0, "the tab's work is part of it");
  assert.equal(stdout(result), (await execute(native("ballast"), work)).stdout);
  assert.deepEqual(swarm.troubles, []);
});

test("a tab of Firefox works for another gateway over a data channel while its own one stands still", options, async (t) => {
  const story = await swarmOf(t, (swarm) => inFirefox(swarm).seller("tab", 50_000, `/?speed=${SPEED}`));
  const { swarm, tab } = story;
  const home = swarm.gateway;
  const id = await buy(story);
  const nodes = await swarm.nodes((nodes) => nodes.some((node) => node.id === tab.node));
  assert.equal(nodes.find((node) => node.id === tab.node).connection, "webrtc");

  process.kill(home.pid, "SIGSTOP");
  try {
    await finish(story, id);
  } finally {
    process.kill(home.pid, "SIGCONT");
  }
  // Firefox reports each attempt to connect to the stopped gateway as an error of the page.
  assert.deepEqual(swarm.troubles.filter((trouble) => !/The connection to ws:\S+ was interrupted/.test(trouble)), []);
});

test("in Firefox a person runs a program from a tab, on another tab", options, async (t) => {
  const swarm = inFirefox(await Swarm.start(t));
  const donor = await swarm.donor("ada");
  const page = await swarm.tab("/run");
  await page.locator("#program").setInputFiles(guest("xorshift"));
  await page.getByLabel("Arguments").fill("3");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.locator(".own-job .badge"), "done");
  await shows(page.locator(".own-job .output"), (await execute(native("xorshift"), ["3"])).stdout.trim());
  await shows(donor.locator("#units-done"), "1");
  assert.deepEqual(swarm.troubles, []);
});
