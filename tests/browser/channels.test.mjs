// Connections of tabs with nodes that are not their gateway: data channels, and circuits by way of it.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

/** Some ten seconds of work on 4 MiB, and more fuel than it needs. */
const WORK = ["4", "1500000"];
const FUEL = 1_000_000_000_000;
const SPEED = 500_000_000;

const post = (swarm, path, body, of) =>
  swarm.api(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, of });

/** The gateway that serves pages, ada, a second one that has credit, and a tab of the first that sells. */
async function swarmOf(t, sell) {
  const swarm = await Swarm.start(t);
  const ada = await swarm.trader("ada", 900_000, SPEED);
  const { code } = await post(swarm, "wallet/invites", { amount: 2_000_000_000 });
  await post(swarm, "wallet/redeem", { code }, ada);
  const tab = await sell(swarm);
  await swarm.offers((offers) => offers.some(({ seller }) => seller === tab.node));
  return { swarm, ada, tab };
}

/** Has ada buy a place for a unit, which runs in the tab and is paused there; its job. */
async function buy({ swarm, ada, tab }) {
  // From now on the story is told by ada, who owns the job.
  swarm.gateway = ada;
  const program = await swarm.upload(guest("ballast"));
  const { id } = await swarm.submit({ program, arguments: WORK, checkpoint: 1, find: "cheapest", max_price: 1_000_000_000, fuel_limit: FUEL });
  await swarm.unit(id, 0, ({ runner, checkpoints }) => runner === tab.node && checkpoints > 0);
  await swarm.pause(id, 0, true);
  await swarm.unit(id, 0, ({ paused }) => paused);
  return id;
}

/** The job goes on, and its result is the tab's and right. */
async function finish({ swarm, tab }, id) {
  await swarm.pause(id, 0, false);
  const done = await swarm.finished(id);
  assert.equal(done.state, "done", done.reason);
  const [result] = await swarm.results(id);
  assert.equal(result.runner, tab.node);
  assert.equal(stdout(result), (await execute(native("ballast"), WORK)).stdout);
}

test("a tab works for another gateway over a data channel, and goes on when its own one stands still", async (t) => {
  const story = await swarmOf(t, (swarm) => swarm.seller("tab", 50_000, `/?speed=${SPEED}`));
  const { swarm, tab } = story;
  const home = swarm.gateway;
  const id = await buy(story);
  const nodes = await swarm.nodes((nodes) => nodes.some((node) => node.id === tab.node));
  const { connection, reachable } = nodes.find((node) => node.id === tab.node);
  assert.deepEqual([connection, reachable], ["webrtc", false]);
  assert.match(nodes.find((node) => node.id === home.node).connection, /^(tcp|websocket)$/);

  process.kill(home.pid, "SIGSTOP");
  try {
    await finish(story, id);
    // Ada is its second gateway, and the page says for whom it works.
    await tab.page.locator("#detail").filter({ hasText: "The tab works for others" }).waitFor();
    assert.equal(await tab.page.locator("#stage").getAttribute("data-phase"), "connected");
  } finally {
    process.kill(home.pid, "SIGCONT");
  }
  assert.deepEqual(swarm.troubles, []);
});

test("a tab that wants no direct connections works for another gateway by way of its own", async (t) => {
  const sell = async (swarm) => {
    const page = await swarm.tab(`/?speed=${SPEED}`);
    await page.locator("#sharing > summary").click();
    await page.getByLabel("What the work costs you").fill("50000");
    await page.getByLabel("Let other nodes connect to this tab directly").uncheck();
    await page.getByText("Kept in this browser.").waitFor();
    await swarm.give(page, "tab");
    const nodes = await swarm.nodes((nodes) => nodes.some(({ name, slots }) => name === "tab" && slots === 1));
    return { page, node: nodes.find(({ name }) => name === "tab").id };
  };
  const story = await swarmOf(t, sell);
  const { swarm, ada, tab } = story;
  const home = swarm.gateway;
  const id = await buy(story);
  const nodes = await swarm.nodes((nodes) => nodes.some((node) => node.id === tab.node));
  const { connection, via } = nodes.find((node) => node.id === tab.node);
  assert.deepEqual([connection, via], ["relay", home.node]);
  const { relaying } = await swarm.api("network", { of: home });
  assert.ok(relaying.circuits === 1 && relaying.bytes > 1_000_000, JSON.stringify(relaying));
  // Its gateway tells, and ada's dashboard says by way of whom.
  const page = await swarm.tab(`${ada.http.replace(/\/$/, "")}/dashboard#token=${ada.token}`);
  await page.getByRole("navigation").getByRole("link", { name: "Nodes" }).click();
  await page.getByText("1 by way of a relay").waitFor();
  await page.getByText(/relayed by/).waitFor();
  await finish(story, id);
  assert.deepEqual(swarm.troubles, []);
});
