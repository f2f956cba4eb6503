// A donor's policy, in a tab and on a gateway: outside of it nothing runs, and the page says why.

import assert from "node:assert/strict";
import { Swarm, guest, stdout, test } from "./harness.mjs";

const state = (page) => page.locator("#state");
const detail = (page) => page.locator("#detail");
const shows = (locator, text) => locator.filter({ hasText: text }).waitFor();

/** The tab, as the gateway sees it. */
const tabWith = (swarm, slots) =>
  swarm.nodes((nodes) => nodes.some((node) => node.platform === "browser" && node.slots === slots));

async function job(swarm, count) {
  const program = await swarm.upload(guest("xorshift"));
  return swarm.submit({ name: "numbers", program, arguments: ["{}"], sweep: { first: 1, count } });
}

/** Opens "When and how much". */
const settings = (page) => page.locator("#sharing > summary").click();

/** Two hours of the clock of a page: they begin in `from` hours. */
const hours = (page, from) =>
  page.evaluate((from) => {
    const at = (more) => {
      const then = new Date(Date.now() + more * 3_600_000);
      return [then.getHours(), then.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":");
    };
    return [at(from), at(from + 2)];
  }, from);

const setTo = async (field, value) => {
  await field.fill(value);
  await field.dispatchEvent("change");
};

test("outside of its hours a tab takes nothing and says until when; in them it works", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  const [from, to] = await hours(page, 3);
  await settings(page);
  await setTo(page.getByLabel("From", { exact: true }), from);
  await setTo(page.getByLabel("To", { exact: true }), to);
  await shows(page.locator("#sharing summary").first(), "2 settings changed");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await shows(state(page), "Not working now");
  await shows(detail(page), `It is outside of its hours; they begin in`);
  await shows(detail(page), `its hours begin, `);
  await shows(detail(page), ` at ${from.replace(/^0/, "")}`);
  await tabWith(swarm, 0);
  const { id } = await job(swarm, 3);

  // Another page of the same browser shows the same settings, and what it changes counts in the first.
  const other = await swarm.beside(page);
  await settings(other);
  assert.equal(await other.getByLabel("From", { exact: true }).inputValue(), from);
  assert.equal((await swarm.api(`jobs/${id}`)).units.done, 0);
  await setTo(other.getByLabel("From", { exact: true }), (await hours(page, -1))[0]);
  await swarm.finished(id);
  await shows(state(page), "Ready, waiting for work");
  assert.equal(stdout((await swarm.results(id))[0]), "10402021961722309240\n");
  assert.deepEqual(swarm.troubles, []);
});

/** A battery that the test holds in its hand: `battery(charging, level)`. */
const withBattery = (page) =>
  page.addInitScript(() => {
    const battery = Object.assign(new EventTarget(), { charging: true, level: 1 });
    navigator.getBattery = async () => battery;
    window.setBattery = (charging, level) => {
      Object.assign(battery, { charging, level });
      battery.dispatchEvent(new Event("levelchange"));
    };
  });

test("a battery that gets low hands on what runs, and it goes on elsewhere where it stood", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  await withBattery(page);
  await page.reload();
  await settings(page);
  await page.getByLabel("Also on battery").check();
  await setTo(page.getByLabel("Down to a charge of"), "40");
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await page.evaluate(() => setBattery(false, 0.8));
  await shows(page.locator("#battery"), "on its battery (80 % left)");
  await swarm.give(page, "ada");
  const program = await swarm.upload(guest("ballast"));
  // No checkpoint before its end: what moves is what the battery made to move.
  const { id } = await swarm.submit({ name: "one", program, arguments: ["4", "4000000"], checkpoint: 3600 });
  await page.locator("#current .time").filter({ hasText: /^([1-9]\.\d|\d\d) s/ }).waitFor();
  await swarm.donor("grace");
  const named = (nodes) => nodes.find((node) => node.name === "grace");
  const grace = named(await swarm.nodes(named));

  await page.evaluate(() => setBattery(false, 0.39));
  await shows(state(page), "Not working now");
  await shows(detail(page), "Its battery is at 39 %. It goes on when it is plugged in, or its battery is at 40 %.");
  const ended = await swarm.finished(id);
  assert.equal(ended.state, "done", ended.reason);
  const [result] = await swarm.results(id);
  assert.equal(result.runner, grace.id);
  assert.equal(result.journey.length, 2, JSON.stringify(result.journey));
  assert.ok(result.journey[0].to > 0, "the first tab's work is part of it");

  await page.evaluate(() => setBattery(true, 0.39));
  await shows(state(page), "Ready, waiting for work");
  assert.deepEqual(swarm.troubles, []);
});

test("who wants the computer for themselves has it, where the browser tells", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  const browser = await page.context().newCDPSession(page);
  // As its person would when asked; Playwright has no word for this permission.
  const { targetInfo } = await browser.send("Target.getTargetInfo");
  const { browserContextId } = targetInfo;
  await browser.send("Browser.grantPermissions", { permissions: ["idleDetection"], origin: swarm.url, browserContextId });
  const idle = (isUserActive) => browser.send("Emulation.setIdleOverride", { isUserActive, isScreenUnlocked: true });
  await idle(true);
  await settings(page);
  await setTo(page.getByLabel("Nobody uses it after"), "1");
  await page.getByLabel("Only while nobody uses this computer").click();
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await shows(state(page), "Not working now");
  await shows(detail(page), "It goes on when nobody has used it for 1 min.");
  await idle(false);
  await shows(state(page), "Ready, waiting for work");
  await idle(true);
  await shows(state(page), "Not working now");
  assert.deepEqual(swarm.troubles, []);
});

test("what contradicts itself is refused in a server's words, and what was set before holds", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  const kept = () => page.evaluate(() => JSON.parse(localStorage.getItem("manyhands-policy")));
  await settings(page);
  assert.equal(page.workers().length, 0, "nothing is loaded before something is changed");
  await page.getByLabel("How much of each core").selectOption("50");
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await page.getByText("Other hours on some days").click();
  const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
  for (const day of days.slice(0, 6)) await page.getByLabel(day).selectOption("not at all");
  await page.waitForFunction(() => Object.keys(JSON.parse(localStorage.getItem("manyhands-policy")).days ?? {}).length === 6);
  const before = await kept();
  await page.getByLabel("Sunday").selectOption("not at all");
  await shows(page.locator("#fault-days"), "the hours exclude every day, so nothing would ever run");
  assert.equal(await page.getByLabel("Sunday").getAttribute("aria-invalid"), "true");
  await shows(page.locator("#sharing"), "Not changed: what was set before still holds.");
  assert.deepEqual(await kept(), before);
  await setTo(page.getByLabel("Take no work from"), "ada");
  await shows(page.locator("#fault-refused_peers"), /./);
  await page.getByRole("button", { name: "Back to the defaults" }).click();
  await page.waitForFunction(() => localStorage.getItem("manyhands-policy") === "{}");
  assert.equal(await page.locator("#fault-days").isVisible(), false);
  assert.deepEqual(swarm.troubles, []);
});

test("kept settings that are none are named, their defaults hold, and the others count", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  const keep = (text) => page.evaluate((text) => localStorage.setItem("manyhands-policy", text), text);
  await keep('{"start_hour": "evening", "share_cycles": false, "hours": 3}');
  await page.reload();
  await shows(page.locator("#fault-start_hour"), "This does not count, and the default holds: invalid type: string \"evening\"");
  await shows(page.locator("#sharing .sharing > .fault"), "hours: unknown field");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await shows(state(page), "Not working now");
  await shows(detail(page), "Cycles are not shared. It goes on when you switch on “Compute for others”.");
  await page.getByLabel("Compute for others").check();
  await shows(state(page), "Ready, waiting for work");
  await page.getByRole("button", { name: "Stop" }).click();
  await shows(state(page), "Stopped");

  await keep("no JSON");
  await page.reload();
  await settings(page);
  await shows(page.locator("#sharing .sharing > .fault"), "The settings that this browser kept cannot be read, so the defaults hold.");
  assert.deepEqual(swarm.troubles, []);
});

test("whose work a tab refuses, and what is too large for it, goes elsewhere", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  await settings(page);
  await setTo(page.getByLabel("Memory of a task, at most"), "128");
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await shows(state(page), "Ready, waiting for work");
  const program = await swarm.upload(guest("xorshift"));
  const usual = await swarm.submit({ name: "usual", program, arguments: ["1"] });
  const small = await swarm.submit({ name: "small", program, arguments: ["1"], memory_limit: 64 << 20 });
  const grace = await swarm.worker("grace");
  for (const { id } of [small, usual]) assert.equal((await swarm.finished(id)).state, "done");
  assert.equal((await swarm.results(usual.id))[0].runner, grace.node);

  await setTo(page.getByLabel("Take no work from"), swarm.gateway.node);
  await shows(page.locator("#sharing"), "Kept in this browser.");
  await grace.kill();
  const refused = await swarm.submit({ name: "refused", program, arguments: ["1"], memory_limit: 64 << 20 });
  const hopper = await swarm.worker("hopper");
  assert.equal((await swarm.finished(refused.id)).state, "done");
  assert.equal((await swarm.results(refused.id))[0].runner, hopper.node);
  assert.deepEqual(swarm.troubles, []);
});

const dashboard = async (swarm) => {
  const page = await swarm.tab(`/dashboard#token=${swarm.gateway.token}`);
  await page.getByRole("navigation").getByRole("link", { name: "Policy" }).click();
  await page.getByRole("heading", { name: "Policy" }).waitFor();
  return page;
};

test("the dashboard knows every setting with its default, sets some, and shows what that comes to", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const page = await dashboard(swarm);
  await shows(page.locator(".now"), "Working1 slot, 100 % of a processor");
  const { policy } = await swarm.api("policy");
  const known = await page.evaluate(async () => {
    const { GROUPS } = await import("/settings.js");
    return Object.fromEntries(GROUPS.flatMap(([, , settings]) => settings).map(({ key, usual }) => [key, usual]));
  });
  assert.deepEqual(known, policy, "names and defaults are the node's");

  // Neither today nor tomorrow: the node has to work.
  const later = new Date(Date.now() + 3 * 86_400_000).toLocaleDateString("en", { weekday: "long" });
  await page.getByLabel("Cycles").selectOption("no");
  await page.getByLabel("Time of each (%)").fill("50");
  await page.getByLabel(later).fill("22:00-6:30");
  await page.getByRole("textbox", { name: "Addresses" }).fill("10.0.0.0/8\n203.0.113.0/24");
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page.locator(".now"), "Not working now");
  await shows(page.locator(".now"), "Cycles are not shared (share_cycles = false).Until you say share_cycles = true.");
  const set = { share_cycles: false, cpu_usage_limit: 50, days: { [later.toLowerCase()]: "22:00-6:30" }, refused_addresses: ["10.0.0.0/8", "203.0.113.0/24"] };
  assert.deepEqual((await swarm.api("policy")).set, set);
  await shows(page.locator(".head"), "4 settings are set");

  await page.reload();
  // The fields are there before the answer that fills them.
  await shows(page.locator(".head"), "4 settings are set");
  assert.equal(await page.getByLabel(later).inputValue(), "22:00-6:30");
  await page.getByLabel("Cycles").selectOption("default (yes)");
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page.locator(".now"), "Working1 slot, 50 % of a processor");
  assert.deepEqual(swarm.troubles, []);
});

test("the dashboard shows what a gateway refuses at the field that it is about", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const page = await dashboard(swarm);
  await shows(page.locator(".now"), "Working");
  const refused = async (label, value, key, words) => {
    const field = page.getByLabel(label, { exact: true });
    await field.fill(value);
    await page.getByRole("button", { name: "Save" }).click();
    await shows(page.locator(`#fault-${key}`), words);
    await shows(page.locator(".keep"), "Not saved");
    await page.getByRole("button", { name: "Undo changes" }).click();
    await shows(page.locator(".keep"), "As it was saved.");
    assert.equal(await page.locator(`#fault-${key}`).textContent(), "");
  };
  await refused("Time of each (%)", "140", "cpu_usage_limit", "cpu_usage_limit is 140: it is a percentage, from 1 to 100");
  await refused("Monday", "later", "days", "\"later\" are no hours");
  await refused("Refused addresses", "10.0.0.0/99", "refused_addresses", /./);
  await refused("Refused nodes", "ada", "refused_peers", /./);
  await refused("Longest time limit (seconds)", "0", "max_task_seconds", "max_task_seconds = 0 would take no task at all");
  await page.getByLabel("What it costs you").fill("5");
  await refused("Least that is asked (µcr)", "3", "min_price", "min_price = 3 is below marginal_cost = 5");
  assert.deepEqual((await swarm.api("policy")).set, {});
  assert.deepEqual(swarm.troubles, []);
});
