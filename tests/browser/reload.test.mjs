// A tab that is loaded again is the node that it was, and goes on with what it was at; a tab that is
// closed loses an interval at most.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

/** Some ten seconds of work on 4 MiB that no compression shortens. */
const WORK = ["4", "1500000"];

/** As much as leaves time for five intervals on a fast machine. */
const LONG = ["4", "6000000"];

const tabs = (nodes) => nodes.filter((node) => node.platform === "browser");

async function submit(swarm, args = WORK) {
  const program = await swarm.upload(guest("ballast"));
  return swarm.submit({ name: "one", program, arguments: args, checkpoint: 1 });
}

/** The unit of the job, as soon as `enough(unit)`; it must not end before that. */
const unit = (swarm, job, enough) =>
  swarm.unit(job.id, 0, (unit) => {
    assert.ok(["waiting", "placed"].includes(unit.state), `it ended too soon: ${JSON.stringify(unit)}`);
    return enough(unit);
  });

/** Another node comes; the unit stands still meanwhile, however long that takes. */
async function joined(swarm, job, name) {
  await swarm.pause(job.id, 0, true);
  const node = await swarm.worker(name);
  await swarm.nodes((nodes) => nodes.some((node) => node.name === name));
  await swarm.pause(job.id, 0, false);
  return node;
}

/**
 * Units as the page's browser keeps them, as text to compare, as soon as that is `wanted`: "some", "none", or
 * "other" than before. Only a unit that runs here is kept anew: when it has ended nothing else will come.
 */
const kept = (page, wanted, before = "") =>
  page.evaluate(
    async ([wanted, before]) => {
      const units = () => document.getElementById("units-done").textContent;
      const [began, ended] = [performance.now(), units()];
      const done = (request) => new Promise((yes, no) => ((request.onsuccess = () => yes(request.result)), (request.onerror = no)));
      const database = await done(indexedDB.open("manyhands"));
      for (;;) {
        const records = await done(database.transaction("records").objectStore("records").getAll());
        const text = records.map(String).join(";");
        if ({ some: text !== "", none: text === "", other: text !== before && text !== "" }[wanted]) return text;
        if (wanted !== "none" && units() !== ended) throw new Error(`the unit ended before the browser kept ${wanted} of it`);
        if (performance.now() - began > 60_000) throw new Error(`for 60 s the browser has not kept ${wanted}`);
        await new Promise(requestAnimationFrame);
      }
    },
    [wanted, before],
  );

/** It has ended as on a machine where nothing happened; gives its result. */
async function ended(swarm, job, answer) {
  const ended = await swarm.finished(job.id);
  assert.equal(ended.state, "done", ended.reason);
  const [result] = await swarm.results(job.id);
  assert.equal(stdout(result), (await answer).stdout);
  assert.equal(result.journey.at(-1).to, result.fuel, "the journey accounts for all of it");
  assert.equal(result.journey[0].from, 0);
  return result;
}

test("a tab that is loaded again is the same node and goes on with its unit", async (t) => {
  const answer = execute(native("ballast"), WORK);
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada");
  const [{ id }] = tabs(await swarm.nodes((nodes) => tabs(nodes).length === 1));
  const job = await submit(swarm);
  const before = await unit(swarm, job, (unit) => unit.checkpoints >= 2);
  await kept(page, "some");

  await page.reload();
  assert.equal(page.workers().length, 0, "nothing runs before Start");
  await swarm.give(page, "ada again");
  const nodes = await swarm.nodes((nodes) => tabs(nodes).some((node) => node.name === "ada again"));
  assert.deepEqual(tabs(nodes).map((node) => node.id), [id], "it is who it was");
  const after = await unit(swarm, job, (unit) => unit.state === "placed" && unit.attempts > before.attempts);
  assert.ok(after.fuel >= before.fuel, `${after.fuel} after ${before.fuel}`);
  const result = await ended(swarm, job, answer);
  assert.deepEqual(result.journey.map((span) => span.runner), [id]);
  assert.equal((await swarm.api(`jobs/${job.id}`)).units.done, 1);
  // A unit that has ended is not kept any longer.
  await kept(page, "none");
  assert.deepEqual(swarm.troubles, []);
});

test("it goes on from what it alone has kept", async (t) => {
  const answer = execute(native("ballast"), LONG);
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada");
  const job = await submit(swarm, LONG);
  await unit(swarm, job, (unit) => unit.checkpoints >= 1);

  // The gateway, its keeper, is gone; the tab works on.
  const before = await swarm.api(`jobs/${job.id}/units/0`);
  await swarm.gateway.kill();
  let newest = await kept(page, "some");
  for (let more = 0; more < 3; more++) newest = await kept(page, "other", newest);
  await page.goto("about:blank");
  await swarm.restartGateway();
  await page.goto(swarm.url);
  await swarm.give(page, "ada");
  const after = await unit(swarm, job, (unit) => unit.state === "placed");
  assert.equal(after.runner, before.runner);
  assert.ok(after.checkpoint_fuel > before.checkpoint_fuel, `${after.checkpoint_fuel} after ${before.checkpoint_fuel}`);
  const result = await ended(swarm, job, answer);
  assert.deepEqual(result.journey.map((span) => span.runner), [before.runner]);
  assert.deepEqual(swarm.troubles, []);
});

test("tabs of one browser are different nodes, and a closed one's name is taken up again", async (t) => {
  const swarm = await Swarm.start(t);
  const first = await swarm.donor("first");
  await swarm.nodes((nodes) => tabs(nodes).length === 1);
  const second = await swarm.beside(first);
  await swarm.give(second, "second");
  const nodes = tabs(await swarm.nodes((nodes) => tabs(nodes).length === 2));
  const id = (name) => nodes.find((node) => node.name === name).id;
  assert.notEqual(id("first"), id("second"));

  await first.close();
  await swarm.nodes((nodes) => tabs(nodes).length === 1);
  const third = await swarm.beside(second);
  await swarm.give(third, "third");
  const now = tabs(await swarm.nodes((nodes) => tabs(nodes).length === 2));
  assert.equal(now.find((node) => node.name === "third").id, id("first"));
  assert.deepEqual(swarm.troubles, []);
});

test("a tab whose browser keeps nothing gives all the same", async (t) => {
  const swarm = await Swarm.start(t);
  const page = await swarm.tab();
  const said = page.waitForEvent("console", (message) => message.text().includes("will be another"));
  // Something newer lies there: the Worker cannot open it, as in a browser that refuses storage.
  await page.evaluate(() => new Promise((done) => (indexedDB.open("manyhands", 99).onsuccess = done)).then(({ target }) => target.result.close()));
  await swarm.give(page, "ada");
  await said;
  const program = await swarm.upload(guest("xorshift"));
  const job = await swarm.submit({ name: "numbers", program, arguments: ["1"] });
  assert.equal((await swarm.finished(job.id)).state, "done");
  assert.deepEqual(swarm.troubles, []);
});

test("a tab that is closed loses an interval at most", async (t) => {
  const answer = execute(native("ballast"), WORK);
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada");
  const job = await submit(swarm);
  await unit(swarm, job, (unit) => unit.checkpoints >= 2);
  const grace = await joined(swarm, job, "grace");
  const before = await unit(swarm, job, () => true);

  await page.close();
  const after = await unit(swarm, job, (unit) => unit.state === "placed" && unit.runner === grace.node);
  assert.ok(after.checkpoint_fuel >= before.checkpoint_fuel, `${after.checkpoint_fuel} after ${before.checkpoint_fuel}`);
  const result = await ended(swarm, job, answer);
  assert.deepEqual(result.journey.map((span) => span.platform), ["browser", "native"]);
  assert.ok(result.journey[0].to >= before.checkpoint_fuel, "it went on from its newest checkpoint");
  assert.deepEqual(swarm.troubles, []);
});

/** The page hears that it goes, and stays for as long as its node takes: what time a browser gives is not ours to say. */
const goes = (page) =>
  page.evaluate(() => {
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message, ...rest) {
      return post.call(this, message.type === "stop" ? { ...message, patience: 10_000 } : message, ...rest);
    };
    globalThis.setTimeout = () => 0;
    dispatchEvent(new PageTransitionEvent("pagehide"));
  });

test("a page that goes hands on what it is at, and does not ask for it again", async (t) => {
  const answer = execute(native("ballast"), WORK);
  const swarm = await Swarm.start(t);
  const page = await swarm.donor("ada");
  const [{ id }] = tabs(await swarm.nodes((nodes) => tabs(nodes).length === 1));
  const job = await submit(swarm);
  await unit(swarm, job, (unit) => unit.checkpoints >= 1);
  const grace = await joined(swarm, job, "grace");
  await kept(page, "some");

  await goes(page);
  await unit(swarm, job, (unit) => unit.state === "placed" && unit.runner === grace.node);
  await page.getByText("Stopped", { exact: true }).waitFor();
  // Its Worker may be gone before it has forgotten what it left: then it asks for it in its next life.
  await page.reload();
  await swarm.give(page, "ada again");
  const nodes = await swarm.nodes((nodes) => tabs(nodes).some((node) => node.name === "ada again"));
  assert.deepEqual(tabs(nodes).map((node) => node.id), [id]);
  const result = await ended(swarm, job, answer);
  assert.deepEqual(result.journey.map((span) => span.runner), [id, grace.node]);
  await kept(page, "none");
  const { lost_placements, duplicates } = await swarm.api(`jobs/${job.id}`);
  assert.deepEqual({ lost_placements, duplicates }, { lost_placements: 0, duplicates: 0 });
  assert.deepEqual(swarm.troubles, []);
});
