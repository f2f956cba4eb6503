// The dashboard: takes a program by drag and drop and shows what it printed; tells what is wrong.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { ROOT, Swarm, guest, native, test } from "./harness.mjs";

const opened = (swarm, section = "") => swarm.tab(`/dashboard#token=${swarm.gateway.token}`).then(async (page) => {
  if (section) await page.getByRole("navigation").getByRole("link", { name: section }).click();
  return page;
});

/** Drops files of this machine on an element, as a hand would. */
async function drop(page, selector, ...paths) {
  const files = await Promise.all(paths.map(async (path) => ({ name: basename(path), base64: (await readFile(path)).toString("base64") })));
  const transfer = await page.evaluateHandle((files) => {
    const transfer = new DataTransfer();
    for (const { name, base64 } of files) {
      transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
    }
    return transfer;
  }, files);
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent(selector, event, { dataTransfer: transfer });
}

const zone = (id) => `.drop:has(#${id})`;

test("a program dropped on the form runs, and its output is shown", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const page = await opened(swarm, "Submit");
  const sonnet = join(ROOT, "examples/wordcount/texts/sonnet-18.txt");
  await drop(page, zone("program"), guest("wordcount"));
  await drop(page, zone("files"), sonnet);
  await page.getByLabel("Arguments").fill("sonnet-18.txt");
  await page.getByRole("button", { name: "Submit", exact: true }).click();

  const output = page.getByRole("region", { name: "Standard output" });
  await output.waitFor();
  assert.equal(await output.textContent(), await readFile(join(ROOT, "examples/wordcount/expected/sonnet-18.txt"), "utf8"));
  assert.match(page.url(), /#\/jobs\/[0-9a-f]{32}$/);
  await page.getByText("Exit code 0").waitFor();
  assert.deepEqual(swarm.troubles, []);
});

test("who presses Submit before the browser has read the program waits and is served", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const page = await opened(swarm, "Submit");
  await page.evaluate(() => {
    const read = Blob.prototype.arrayBuffer;
    Blob.prototype.arrayBuffer = async function () {
      await new Promise((resolve) => (window.readNow = resolve));
      return read.call(this);
    };
  });
  await drop(page, zone("program"), guest("nqueens"));
  await page.getByLabel("Arguments").fill("6");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.waitForFunction(() => window.readNow);
  await page.evaluate(() => window.readNow());
  await page.getByText("Exit code 0").waitFor();
});

test("standard input goes in, and the files that a program writes come out", async (t) => {
  const swarm = await Swarm.start(t, "--slots", "1");
  const page = await opened(swarm, "Submit");
  await drop(page, zone("program"), guest("csv-split"));
  await page.getByLabel("Arguments").fill("block");
  await page.getByRole("textbox", { name: "Standard input" }).fill("name,block\nHydrogen,s\nIron,d\n");
  await page.getByRole("button", { name: "Submit", exact: true }).click();

  await page.getByText("block/d.csv: 1 rows").waitFor();
  const arriving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download s.csv" }).click();
  assert.equal(await readFile(await (await arriving).path(), "utf8"), "name,block\nHydrogen,s\n");
});

test("what is no program is refused by name before anything is sent", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await opened(swarm, "Submit");
  await drop(page, zone("program"), native("null"));
  await page.getByText("null cannot run here. It is a program for").waitFor();
  assert.deepEqual((await swarm.api("jobs")).jobs, []);
});

test("a sweep's progress, its workers and its units are shown as they change", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await opened(swarm, "Submit");
  await drop(page, zone("program"), guest("xorshift"));
  await page.getByLabel("Arguments").fill("{}");
  await page.getByText("Run it many times").click();
  await page.getByLabel("How many").fill("12");
  await page.getByRole("button", { name: "Submit", exact: true }).click();

  // With nobody there to run it, it says why it waits.
  await page.getByText("12 waiting").waitFor();
  await swarm.worker("grace");
  await page.getByText("12 done").waitFor();
  await page.getByRole("rowheader", { name: "grace" }).waitFor();
  assert.deepEqual(swarm.troubles, []);
});

test("without the right token there are nodes to see, but no jobs", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab("/dashboard#token=wrong");
  await page.getByText("The gateway does not know the token").waitFor();
  await page.getByLabel("Token").fill(swarm.gateway.token);
  await page.getByRole("button", { name: "Open the dashboard" }).click();
  await page.getByRole("navigation").getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
});

test("a view is loaded when it is opened, and of two the later one is shown", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await opened(swarm);
  await page.getByRole("heading", { name: "No job yet" }).waitFor();
  const loaded = () => page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname));
  assert.deepEqual((await loaded()).filter((path) => ["/submit.js", "/market.js", "/wallet.js"].includes(path)), []);

  let letGo;
  const held = new Promise((resolve) => (letGo = resolve));
  await page.route("**/market.js", async (route) => {
    await held;
    await route.fallback();
  });
  const asked = page.waitForRequest("**/market.js");
  const links = page.getByRole("navigation");
  await links.getByRole("link", { name: "Market" }).click();
  await asked;
  await links.getByRole("link", { name: "Submit" }).click();
  await page.getByRole("heading", { name: "Submit a program" }).waitFor();
  const come = page.waitForEvent("requestfinished", (request) => request.url().endsWith("/market.js"));
  letGo();
  await come;
  // The module runs once more here, after the one that the page waited for.
  await page.evaluate(() => import("/market.js"));
  await page.getByRole("heading", { name: "Submit a program" }).waitFor();
  assert.equal(await page.title(), "Submit · Manyhands");
  assert.deepEqual(swarm.troubles, []);
});

test("a view that cannot be loaded says so, and a reload shows it", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await opened(swarm);
  await page.getByRole("heading", { name: "No job yet" }).waitFor();
  await page.route("**/market.js", (route) => route.abort());
  await page.getByRole("navigation").getByRole("link", { name: "Market" }).click();
  await page.getByText("This page could not be loaded").waitFor();
  await page.unroute("**/market.js");
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByRole("heading", { name: "Market", exact: true }).waitFor();
  assert.deepEqual(swarm.troubles, []);
});
