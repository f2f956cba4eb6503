// Measures the time from `up --join` to a node's place in the swarm, by kind of machine: a member is in the tree
// and in the ring, and then in the markets; a guest says that it is one.
//
//   node tests/lab/measure.mjs [--orders 20] [--seed 1] [--json]

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { KINDS, LIMIT, arrivals, openGateway } from "./kinds.mjs";
import { Lab } from "./lab.mjs";

if (process.env.MANYHANDS_LAB !== "entered") {
  const enter = fileURLToPath(new URL("enter", import.meta.url));
  const { status } = spawnSync(enter, [process.execPath, ...process.argv.slice(1)], { stdio: "inherit" });
  process.exit(status ?? 1);
}

const number = (fallback) => ({ type: "string", default: String(fallback) });
const { values } = parseArgs({ options: { orders: number(20), seed: number(1), json: { type: "boolean" } } });
const [orders, seed] = [Number(values.orders), Number(values.seed)];

const all = [];
for (let at = seed; at < seed + orders; at += 1) {
  const story = { after: () => {} };
  const lab = await Lab.start(story);
  try {
    const gateway = await openGateway(lab, "--slots", "0");
    const arrived = await arrivals(lab, gateway, at);
    all.push(...arrived.map(({ kind, name, s, sells_s, stands }) => ({ seed: at, kind, name, s, sells_s, stands })));
    console.error(`seed ${at}: ${arrived.map(({ name, s }) => `${name} ${s?.toFixed(1) ?? "never"}`).join(", ")}`);
  } finally {
    await lab.end();
  }
}

const median = (sorted) => sorted[Math.floor((sorted.length - 1) / 2)];
const kinds = Object.keys(KINDS).map((kind) => {
  const ascending = (times) => times.map((s) => s ?? Infinity).sort((a, b) => a - b);
  const times = ascending(all.filter((one) => one.kind === kind).map(({ s }) => s));
  const sells = ascending(all.filter((one) => one.kind === kind).map(({ sells_s }) => sells_s));
  return {
    kind,
    becomes: { true: "member", false: "guest" }[KINDS[kind].member] ?? "either",
    arrivals: times.length,
    late: times.filter((s) => s === Infinity).length,
    median_s: median(times),
    slowest_s: times.at(-1),
    sells: KINDS[kind].member ? { median_s: median(sells), slowest_s: sells.at(-1) } : null,
  };
});
if (values.json) {
  // JSON has no infinity: null is later than the limit.
  console.log(JSON.stringify({ seed, orders, limit_s: LIMIT / 1000, kinds, arrivals: all }, null, 2));
} else {
  const shown = (s) => (s === Infinity ? `over ${LIMIT / 1000}` : s.toFixed(1));
  console.log("| kind | becomes | arrivals | late | median, s | slowest, s | in the markets: median, s | slowest, s |\n|---|---|---|---|---|---|---|---|");
  for (const { kind, becomes, arrivals, late, median_s, slowest_s, sells } of kinds) {
    const listed = sells ? `${shown(sells.median_s)} | ${shown(sells.slowest_s)}` : "– | –";
    console.log(`| ${kind} | ${becomes} | ${arrivals} | ${late} | ${shown(median_s)} | ${shown(slowest_s)} | ${listed} |`);
  }
}
process.exitCode = all.some(({ s }) => s === null) ? 1 : 0;
