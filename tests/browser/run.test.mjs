// Programs that a person runs from a tab: the tab owns the job, and nobody's gateway has it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Swarm, TRADE, execute, guest, native, test } from "./harness.mjs";
import { SPEED } from "./second-gateway.mjs";

const shows = (locator, text) => locator.filter({ hasText: text }).waitFor();
const job = (page, n = 0) => page.locator(".own-job").nth(n);
const state = (page, word, n = 0) => shows(job(page, n).locator(".badge"), word);

/** Has a tab run a program, so many units of it. */
async function run(page, program, args, units = 1) {
  await page.locator("#program").setInputFiles(guest(program));
  await page.getByLabel("Arguments").fill(args);
  await page.getByLabel("Units", { exact: true }).fill(String(units));
  await page.getByRole("button", { name: "Run", exact: true }).click();
}

/** Everything that a job of xorshift prints, unit by unit. */
async function numbers(count) {
  let all = "";
  for (let n = 0; n < count; n += 1) all += (await execute(native("xorshift"), [String(n)])).stdout;
  return all;
}

test("a tab runs a program on another tab, and the gateway has no job", async (t) => {
  const swarm = await Swarm.start(t);
  const donor = await swarm.donor("ada");
  const page = await swarm.tab("/run");
  assert.equal(page.workers().length, 0, "nothing runs before somebody says so");
  await run(page, "xorshift", "{}", 30);
  await state(page, "done");
  await shows(job(page), "30 of 30 units done · by 1 node");
  await shows(donor.locator("#units-done"), "30");
  const [file] = await Promise.all([page.waitForEvent("download"), job(page).getByRole("button", { name: "Download all output" }).click()]);
  assert.equal(file.suggestedFilename(), "xorshift.txt");
  assert.equal(await readFile(await file.path(), "utf8"), await numbers(30));
  assert.equal(await job(page).locator(".own-results > li").count(), 30);
  assert.deepEqual((await swarm.api("jobs")).jobs, []);
  assert.deepEqual(swarm.troubles, []);
});

test("a server that others dial computes for a tab, which dials nobody", async (t) => {
  const swarm = await Swarm.start(t);
  const grace = await swarm.worker("grace");
  const page = await swarm.tab("/run");
  await run(page, "xorshift", "{}", 20);
  await state(page, "done");
  await shows(job(page).locator(".own-results > li").first(), `unit 0 on n-${grace.node.slice(0, 8)}`);
  // A second one of one unit, which keeps its arguments.
  await page.getByLabel("Standard input").fill("one two\nthree\n");
  await page.getByRole("button", { name: "Remove xorshift.wasm" }).click();
  await run(page, "wordcount", "");
  await state(page, "done");
  await shows(job(page).locator(".output").first(), /one/);
  assert.equal(await page.locator(".own-job").count(), 2, "the newest is the first");
  // The worker has the same page, and takes in no tabs.
  const lost = await swarm.tab(new URL("/run", grace.http).href);
  await run(lost, "xorshift", "{}");
  await shows(lost.locator("#trouble"), "offers no WebSocket address");
  assert.deepEqual(swarm.troubles, []);
});

test("a tab that is loaded again goes on with its jobs, and still has the results of those that ended", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab("/run");
  // Too much to travel with the job: whoever runs a unit fetches it from the tab.
  await page.getByLabel("Standard input").fill("many words ".repeat(20_000));
  await run(page, "xorshift", "{}", 25);
  // Nobody gives a slot.
  await state(page, "waiting");
  await page.reload();
  await state(page, "waiting");
  const donor = await swarm.donor("ada");
  await state(page, "done");
  await shows(donor.locator("#units-done"), "25");
  await page.reload();
  await state(page, "done");
  const [file] = await Promise.all([page.waitForEvent("download"), job(page).getByRole("button", { name: "Download all output" }).click()]);
  assert.equal(await readFile(await file.path(), "utf8"), await numbers(25));
  await job(page).getByRole("button", { name: "Forget", exact: true }).click();
  await job(page).getByRole("button", { name: "Forget it and its results?" }).click();
  await page.locator(".own-job").waitFor({ state: "detached" });
  await page.reload();
  await shows(page.locator("#state"), "starts with the first job");
  assert.deepEqual(swarm.troubles, []);
});

test("what does not run says why, and a job can be cancelled", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab("/run");
  const fault = page.locator("#form [role=alert]");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(fault, "Choose a program first.");
  await page.locator("#program").setInputFiles({ name: "a.wasm", mimeType: "application/wasm", buffer: Buffer.from("#!/bin/sh\n") });
  await fault.filter({ hasText: /\S/ }).first().waitFor();
  const broken = Buffer.concat([(await readFile(guest("null"))).subarray(0, 60), Buffer.alloc(60, 0xff)]);
  await page.locator("#program").setInputFiles({ name: "b.wasm", mimeType: "application/wasm", buffer: broken });
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(fault, "is not WebAssembly, or uses what this browser does not know");
  await page.getByRole("button", { name: "Remove b.wasm" }).click();
  await run(page, "xorshift", "{}", 10);
  // Nobody gives a slot.
  await state(page, "waiting");
  await job(page).getByRole("button", { name: "Cancel" }).click();
  await state(page, "cancelled");
  await page.getByText("I have a code for credit").click();
  await page.getByLabel("Code of an invite for credit").fill("0".repeat(32));
  await page.getByRole("button", { name: "Take it" }).click();
  await page.getByText("nobody waits with an invite of this code").waitFor();
  assert.deepEqual(swarm.troubles, []);
});

test("a tab with credit of an invite buys a place from a server, and pays what was used", async (t) => {
  const swarm = await Swarm.start(t);
  await swarm.trader("ada", 900_000, SPEED);
  await swarm.offers((offers) => offers.length > 0);
  const { code } = await swarm.api("wallet/invites", {
    method: "POST", body: JSON.stringify({ amount: 50_000_000 }), headers: { "Content-Type": "application/json" },
  });
  const page = await swarm.tab("/run");
  await page.getByText("I have a code for credit").click();
  await page.getByLabel("Code of an invite for credit").fill(code);
  await page.getByRole("button", { name: "Take it" }).click();
  await page.getByText("Pay for places").click();
  await page.getByText("This tab has 50 credits.").waitFor();
  await page.getByLabel("Buy places of who sells them cheapest").check();
  await page.getByLabel("A unit costs at most").fill("5");
  await page.getByLabel("Fuel of a unit, at most").fill("5");
  await run(page, "xorshift", "{}", 2);
  await job(page).locator(".badge").filter({ hasText: "done" }).waitFor({ timeout: TRADE });
  await shows(job(page), /credits? paid/);
  await page.getByText(/This tab has 4\d\.\d+ credits\./).waitFor();
  assert.deepEqual(swarm.troubles, []);
});
