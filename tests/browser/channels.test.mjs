// Connections of tabs with nodes that are not their gateway: data channels, and circuits by way of it.

import assert from "node:assert/strict";
import { test } from "./harness.mjs";
import { SPEED, buy, finish, swarmOf } from "./second-gateway.mjs";

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
  // The state of the unit is on its way to ada, whoever else keeps it already.
  await swarm.relaying(home, ({ circuits, bytes }) => circuits === 1 && bytes > 1_000_000);
  // Its gateway tells, and ada's dashboard says by way of whom.
  const page = await swarm.tab(`${ada.http.replace(/\/$/, "")}/dashboard#token=${ada.token}`);
  await page.getByRole("navigation").getByRole("link", { name: "Nodes" }).click();
  await page.getByText("1 by way of a relay").waitFor();
  await page.getByText(/relayed by/).waitFor();
  await finish(story, id);
  assert.deepEqual(swarm.troubles, []);
});
