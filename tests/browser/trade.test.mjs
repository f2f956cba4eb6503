// The dashboard with credit and with files: the wallet, the market and the files page.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Swarm, TRADE, guest, test } from "./harness.mjs";

const opened = async (swarm, section) => {
  const page = await swarm.tab(`/dashboard#token=${swarm.gateway.token}`);
  await page.getByRole("navigation").getByRole("link", { name: section }).click();
  await page.getByRole("heading", { name: section, level: 1 }).waitFor();
  return page;
};

const figure = (page, label) => page.locator(".figures > div").filter({ has: page.getByText(label, { exact: true }) }).locator("dd");
const shows = (locator, text) => locator.filter({ hasText: text }).waitFor();

test("the bank's operator makes an invite, redeems it and sends of it; statement and plot say so", async (t) => {
  const swarm = await Swarm.start(t);
  const grace = await swarm.worker("grace");
  const page = await opened(swarm, "Wallet");
  await shows(figure(page, "Balance"), "0 credits");
  await shows(figure(page, "Bank"), "this node");
  await page.getByText("sum to 0, as they must").waitFor();
  await page.getByText("Nothing has come or gone yet").waitFor();
  assert.equal(await page.getByRole("img", { name: /^Balance/ }).isVisible(), false, "there is nothing to draw");

  const making = page.getByRole("form", { name: "Make an invite" });
  await making.getByLabel("Amount").fill("2.1234567");
  await making.getByRole("button").first().click();
  await shows(making, "six digits behind the point at most");
  await making.getByLabel("Amount").fill("12.5");
  await making.getByRole("button", { name: "Make an invite" }).click();
  const code = await page.locator("#invite-made").textContent();
  assert.match(code, /^[0-9a-f]{32}$/);

  const redeeming = page.getByRole("form", { name: "Redeem an invite" });
  await redeeming.getByLabel("Code").fill("6f1c");
  await redeeming.getByRole("button").click();
  await shows(redeeming, "an invite's code has 32 hexadecimal digits");
  assert.equal(await redeeming.getByLabel("Code").getAttribute("aria-invalid"), "true");
  await redeeming.getByLabel("Code").fill(code);
  await redeeming.getByRole("button").click();
  await shows(redeeming, "Redeemed");
  await shows(figure(page, "Balance"), "12.5 credits");

  const sending = page.getByRole("form", { name: "Send credit" });
  await sending.getByLabel("To").fill(grace.node);
  await sending.getByLabel("Amount").fill("20");
  await sending.getByRole("button").click();
  await sending.locator(".fault").filter({ hasText: /./ }).first().waitFor();
  await shows(figure(page, "Balance"), "12.5 credits");
  await sending.getByLabel("Amount").fill("2.000001");
  await sending.getByRole("button").click();
  await shows(sending, "Sent 2.000001 credits to grace.");
  await shows(figure(page, "Balance"), "10.499999 credits");

  const rows = page.getByRole("table", { name: "Statement" }).locator("tbody tr");
  const cells = await rows.evaluateAll((rows) => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent)));
  assert.deepEqual(cells, [
    ["Sent to grace", "−2.000001", "10.499999"],
    ["Invite redeemed", "+12.5", "12.5"],
  ]);
  await page.getByRole("img", { name: /^Balance from .*: from 12.5 to 10.499999 credits, 12.5 at most\.$/ }).waitFor();
  const { balance, sum } = await swarm.api("wallet");
  assert.deepEqual([balance, sum], [10_499_999, 0]);
  assert.deepEqual(swarm.troubles, []);
});

test("credit that comes while the wallet is open is shown, since the gateway says so", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await opened(swarm, "Wallet");
  // Without polls: only what the gateway tells makes the page ask.
  await page.addInitScript(() => {
    const { setTimeout } = window;
    window.setTimeout = (then, ms) => (ms > 2000 ? 0 : setTimeout(then, ms));
  });
  await page.reload();
  await shows(page.locator("#liveness"), "Live");
  await shows(figure(page, "Balance"), "0 credits");
  const post = (path, body) => swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const { code } = await post("wallet/invites", { amount: 3 });
  await post("wallet/redeem", { code });
  await shows(figure(page, "Balance"), "0.000003 credits");
  assert.deepEqual(swarm.troubles, []);
});

test("a file that is put is kept by another node, published, fetched and removed", async (t) => {
  const swarm = await Swarm.start(t);
  await swarm.worker("grace");
  const page = await opened(swarm, "Files");
  await page.getByRole("heading", { name: "No file yet" }).waitFor();
  const putting = page.getByRole("form", { name: "Put a file" });
  await putting.getByRole("button", { name: "Put it" }).click();
  await shows(putting, "Choose a file first.");

  await page.locator("#put-file").setInputFiles({ name: "poem.txt", mimeType: "text/plain", buffer: Buffer.from("Rough winds do shake\n") });
  await putting.getByLabel("Copies").fill("9");
  await putting.getByRole("button", { name: "Put it" }).click();
  await shows(putting, "Copies are a whole number from 1 to 8.");
  await putting.getByLabel("Copies").fill("1");
  await putting.getByLabel("Encrypt it").check();
  await putting.getByRole("button", { name: "Put it" }).click();
  await shows(putting, "poem.txt is put.");
  const card = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "poem.txt" }) });
  await shows(card, "0 of 1 copy kept");
  // A swarm that has just begun asks its markets first, which takes them a minute.
  await card.filter({ hasText: "1 of 1 copy kept" }).waitFor({ timeout: TRADE });
  await shows(card, "encrypted");
  await shows(page.getByRole("list", { name: "Keepers of poem.txt", exact: true }), "grace");
  await shows(page.locator("#liveness"), "Nothing is under way");

  const arriving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download poem.txt" }).click();
  assert.equal(await readFile(await (await arriving).path(), "utf8"), "Rough winds do shake\n");

  await card.getByText("Content id, and publish a name").click();
  await card.getByLabel("Name").fill("sonnet-18");
  await card.getByRole("button", { name: "Publish" }).click();
  await shows(card, "Published as “sonnet-18”");

  await page.getByRole("button", { name: "Remove poem.txt" }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  assert.equal((await swarm.api("files")).files.length, 1);
  await page.getByRole("button", { name: "Remove poem.txt" }).click();
  await page.getByRole("button", { name: "Remove the file" }).click();
  await page.getByRole("heading", { name: "No file yet" }).waitFor();
  assert.deepEqual((await swarm.api("files")).files, []);
  assert.deepEqual(swarm.troubles, []);
});

test("who sells is shown, and a job of the form buys of them and says what it paid", async (t) => {
  const swarm = await Swarm.start(t);
  for (const [name, cost] of [["grace", 100_000], ["ada", 250_000]]) await swarm.trader(name, cost, 500_000_000);
  const post = (path, body) => swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const { code } = await post("wallet/invites", { amount: 100_000_000 });
  await post("wallet/redeem", { code });

  const page = await opened(swarm, "Submit");
  await page.locator("#program").setInputFiles(guest("xorshift"));
  await page.getByLabel("Arguments").fill("1");
  await page.getByText("Buy places", { exact: true }).click();
  await page.getByLabel("Buy places of who sells them cheapest").check();
  await page.getByLabel("A unit costs at most").fill("1,5");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByText("A unit costs at most: Write an amount in credits").waitFor();
  await page.getByLabel("A unit costs at most").fill("10");
  await page.getByLabel("Fuel of a unit, at most").fill("2");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await shows(figure(page, "At most"), "10 credits");
  await page.getByText("Exit code 0").waitFor({ timeout: TRADE });
  const id = /[0-9a-f]{32}$/.exec(page.url())[0];
  const { cost } = await swarm.finished(id);
  assert.ok(cost.paid > 0);
  await shows(figure(page, "Paid"), new RegExp(`^${cost.paid / 1e6} credits$`));

  await page.getByRole("navigation").getByRole("link", { name: "Wallet" }).click();
  await shows(figure(page, "Held"), /^0 credits$/);
  const bought = page.getByRole("table", { name: "Statement" }).locator("tbody tr").filter({ hasText: "Put aside for unit 0" }).last();
  assert.equal(await bought.getByRole("link").getAttribute("href"), `#/jobs/${id}`);

  await page.getByRole("navigation").getByRole("link", { name: "Market" }).click();
  const offers = page.getByRole("table", { name: "Cheapest offers: Computing, 380 to 537 million fuel/s" }).locator("tbody tr");
  await shows(offers.first(), /grace.*500 million fuel\/s.*100,000 µcr for 10⁹ fuel/);
  await shows(offers.nth(1), /ada.*250,000 µcr/);
  await page.getByText("The cheapest sells, at the price of the next cheapest").waitFor();
  // Both sell again what was bought; whoever keeps the market says what for.
  const market = page.getByRole("region", { name: "Computing, 380 to 537 million fuel/s" });
  await shows(market, "2 sellers with 2 slots, from 100,000 to 250,000 µcr. Last sold at 250,000 µcr");
  await page.getByText(/^All markets there are, seen (just now|\d+ s ago)\.$/).waitFor({ timeout: TRADE });
  assert.deepEqual(swarm.troubles, []);
});

test("when nothing is for sale the market says why that may be, and what to do", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab(`/dashboard#token=${swarm.gateway.token}`);
  // A gateway sells space of its own as soon as there are markets, so what it answers is the test's.
  const looks = ["cycles", "checkpoints", "files"].map((kind) => ({ kind, whole: true, age_s: 3 }));
  let state = { scheme: "single", rule: "max_min", bank: null, commodities: [], looks, selling: [] };
  await page.route("**/api/v1/market", (route) => route.fulfill({ json: state }));
  await page.getByRole("navigation").getByRole("link", { name: "Market" }).click();
  await page.getByRole("heading", { name: "Nothing is for sale that this node knows of" }).waitFor();
  await page.getByText("Nobody may be selling").waitFor();
  await page.getByText("manyhands up --join").waitFor();
  await page.getByText("None is known yet").waitFor();
  await page.getByText("All markets there are, seen just now.").waitFor();
  const offer = { seller: "ab".repeat(32), name: "grace", kind: "files", capacity: 1 << 30, units: 1, minutes: 2880, cost: 3, engine: "native", memory_mib: 0 };
  const owner = "cd".repeat(32);
  state = { ...state, looks: looks.map((look, i) => (i < 2 ? look : { ...look, whole: false })), commodities: [
    { kind: "files", least: 1 << 30, most: 1518500249, mine: false, sellers: 40, units: 40, cheapest: 3, dearest: 9, last: null, owner, age_s: 70, offers: [offer] },
  ] };
  await page.reload();
  await page.getByText("Not all markets answered: some may be missing of space for files.").waitFor();
  await page.getByText("40 sellers, from 3 to 9 µcr. No sale was seen lately. n-cdcdcdcd keeps this market and said so 1 min 10 s ago.").waitFor();
  await page.getByText("39 dearer are not shown.").waitFor();
  state = { ...state, looks: looks.map((look) => ({ ...look, whole: false, age_s: null })), commodities: [] };
  await page.reload();
  await page.getByText("Not seen yet: computing, space for checkpoints, space for files.").waitFor();
  state = { ...state, scheme: null, rule: null };
  await page.reload();
  await page.getByRole("heading", { name: "There are no markets in this swarm" }).waitFor();
  assert.equal(await page.getByText("Nobody may be selling").isVisible(), false);
  assert.deepEqual(swarm.troubles, []);
});
