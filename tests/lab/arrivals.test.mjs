// Orders of arrival drawn from a seed: each machine has its place in time, whatever came before it.
//
//   MANYHANDS_SEED=4711 MANYHANDS_ORDERS=20 tests/lab/enter node --test tests/lab/arrivals.test.mjs

import assert from "node:assert/strict";
import { test } from "node:test";
import { KINDS, LIMIT, arrivals, openGateway, order } from "./kinds.mjs";
import { Lab } from "./lab.mjs";
import { isGuest, isMember, standing } from "./node.mjs";

const SEED = Number(process.env.MANYHANDS_SEED ?? 1);
const ORDERS = Number(process.env.MANYHANDS_ORDERS ?? 3);

for (let seed = SEED; seed < SEED + ORDERS; seed += 1) {
  const names = order(seed).map(({ name, alone }) => (alone ? name : `with ${name}`));
  test(`seed ${seed}: ${names.join(", ")}`, { timeout: 300_000 }, async (t) => {
    const lab = await Lab.start(t);
    const gateway = await openGateway(lab, "--slots", "0");
    const arrived = await arrivals(lab, gateway, seed);
    const late = arrived.filter(({ why }) => why);
    const told = ({ name, stands, why, node }) => `${name} is ${JSON.stringify(stands)} (${why}) and has said\n${node.said}`;
    assert.equal(late.length, 0, `not in time (MANYHANDS_SEED=${seed}):\n${late.map(told).join("\n")}`);
    // No node lost its place to a later one, and the one beside the gateway gave its own up.
    const isRight = ({ kind, name }, all) => (KINDS[kind].member ? isMember(all[name]) : isGuest(all[name]));
    await gateway.until(standing, (all) => arrived.every((one) => isRight(one, all)), LIMIT);
  });
}
