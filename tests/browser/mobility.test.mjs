// One task, never begun again: it moves from servers into a tab and back, its runners and a keeper
// of its checkpoints die, and its result is that of a machine where nothing happened.

import assert from "node:assert/strict";
import { Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

/** Half a minute and more of work on 4 MiB that no compression shortens. */
const WORK = ["4", "4000000"];

test("a task goes from servers to a tab and back while its runners and a keeper die", async (t) => {
  const answer = execute(native("ballast"), WORK);
  const swarm = await Swarm.start(t);
  const workers = new Map();
  for (const name of ["ada", "grace", "alan"]) {
    const node = await swarm.worker(name);
    workers.set(node.node, node);
  }
  await swarm.nodes((nodes) => nodes.filter((node) => node.slots > 0).length === 3);
  const program = await swarm.upload(guest("ballast"));
  const job = await swarm.submit({ name: "the journey", program, arguments: WORK, checkpoint: 1 });
  const unit = (enough) => swarm.unit(job.id, 0, (unit) => {
    assert.ok(["waiting", "placed"].includes(unit.state), `it ended too soon: ${JSON.stringify(unit)}`);
    return enough(unit);
  });
  /** Has a checkpoint of its own from the node that runs it now, and this is kept. */
  const settled = (runner) => (unit) =>
    unit.state === "placed" && unit.runner === runner && unit.keepers.length > 0 && unit.journey.at(-1)?.runner === runner;
  const move = async (to) => {
    const moved = await swarm.migrate(job.id, 0, to);
    assert.equal(moved.runner, to);
    return unit(settled(to));
  };
  const kill = async (id) => {
    await workers.get(id).kill();
    workers.delete(id);
  };

  // It begins on a server: the tab comes later.
  let here = await unit((unit) => unit.checkpoints > 0);
  const first = here.runner;
  await swarm.donor("edsger");
  const nodes = await swarm.nodes((nodes) => nodes.filter((node) => node.slots > 0).length === 4);
  const tab = nodes.find((node) => node.name === "edsger").id;

  await t.test("its runner is killed, and it goes on from its checkpoint", async () => {
    const before = here.checkpoint_fuel;
    await kill(first);
    here = await unit((unit) => unit.state === "placed" && unit.runner !== first && unit.journey.at(-1)?.runner === unit.runner);
    assert.ok(here.fuel >= before, "it did not begin again");
  });

  await t.test("it moves into the tab and back", async () => {
    if (here.runner !== tab) here = await move(tab);
    const there = here.fuel;
    here = await move(workers.keys().next().value);
    assert.ok(here.fuel > there, "the tab computed");
    const kinds = here.journey.map((span) => span.platform).filter((kind, i, all) => kind !== all[i - 1]);
    assert.deepEqual(kinds.slice(-3), ["native", "browser", "native"]);
  });

  await t.test("a keeper is killed, then the runner again", async () => {
    const second = here.runner;
    const keeper = here.keepers.find((id) => workers.has(id) && id !== second);
    if (keeper) await kill(keeper);
    here = await unit((unit) => settled(second)(unit) && !unit.keepers.includes(keeper));
    const before = here.checkpoint_fuel;
    await kill(second);
    here = await unit((unit) => unit.state === "placed" && unit.runner !== second && unit.journey.at(-1)?.runner === unit.runner);
    assert.ok(here.fuel >= before, "it did not begin again");
  });

  await t.test("the result is that of a machine where nothing happened", async () => {
    const ended = await swarm.finished(job.id);
    assert.equal(ended.state, "done", ended.reason);
    const [result] = await swarm.results(job.id);
    assert.equal(stdout(result), (await answer).stdout);
    const to = result.journey.at(-1).to;
    assert.equal(to, result.fuel, "the journey accounts for all of it");
    assert.ok(new Set(result.journey.map((span) => span.runner)).size >= 3, JSON.stringify(result.journey));
  });
  assert.deepEqual(swarm.troubles, []);
});
