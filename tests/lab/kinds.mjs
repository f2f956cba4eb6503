// Kinds of machines that join a swarm, and orders of arrival drawn from a seed.

import { isGuest, isMember, sellers, standing } from "./node.mjs";

/** Time from `up --join` to its place in the swarm that a node may need, whatever came before it, ms. */
export const LIMIT = 30_000;

/**
 * `member` is whether peers can dial such a node, and so what has to become of it. `words` are what is typed
 * besides `up --join URL`.
 */
export const KINDS = {
  open: { member: true, place: (lab, name) => lab.machine(name) },
  "no-udp": { member: true, place: (lab, name) => lab.machine(name, { udp: "drop" }) },
  "v6-only": { member: true, place: (lab, name) => lab.machine(name, { v4: false }) },
  nat: {
    member: false,
    place: async (lab, name) => lab.machine(name, { behind: await lab.router(`${name}-router`) }),
  },
  "symmetric-nat": {
    member: false,
    place: async (lab, name) => lab.machine(name, { behind: await lab.router(`${name}-router`, { symmetric: true }) }),
  },
  loopback: { member: false, place: (lab, name) => lab.machine(name), words: () => ["--bind", "127.0.0.1"] },
  firewalled: { member: false, place: (lab, name) => lab.machine(name, { inbound: "drop" }) },
  // On the gateway's own machine, and joined by its loopback address.
  beside: {
    member: true,
    place: (lab, name, gateway) => gateway.machine,
    words: (name) => ["--name", name, "--data", name],
    url: "http://127.0.0.1:8080",
  },
};

/** Numbers from 0 to 1 that a seed decides (mulberry32). */
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Machines in the order in which they come: each kind once and one more open machine, as the seed decides.
 * `alone` is whether the machine before has to have its place first.
 */
export function order(seed) {
  const random = numbers(seed);
  const kinds = [...Object.keys(KINDS), "open"];
  for (let at = kinds.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [kinds[at], kinds[other]] = [kinds[other], kinds[at]];
  }
  return kinds.map((kind, at) => ({ kind, name: `${kind}-${at + 1}`, alone: random() < 0.5 }));
}

/** Starts a gateway that is on the open network. */
export async function openGateway(lab, ...words) {
  const machine = await lab.machine("gateway");
  return machine.up("--gateway", "--bind", "0.0.0.0", "--public-host", "gateway.example", ...words);
}

/**
 * Lets a machine join with the one option that README names, and waits for its place: `{kind, name, s, sells_s,
 * stands, node}`. `s` is the time from `up --join` on, seconds, until it was member or guest as its kind has to
 * be; `sells_s` until a member was listed in the markets too. Each is null if that took longer than the limit.
 */
export async function arrive(gateway, { kind, name }, machine) {
  const { member, words = () => [], url = "http://gateway.example:8080" } = KINDS[kind];
  const started = performance.now();
  const node = await machine.up("--join", url, ...words(name));
  const left = () => Math.max(1, LIMIT - (performance.now() - started));
  const since = () => (performance.now() - started) / 1000;
  const right = (all) => (member !== false && isMember(all[name])) || (member !== true && isGuest(all[name]));
  const arrived = { kind, name, s: null, sells_s: null, node };
  try {
    arrived.stands = (await gateway.until(standing, right, left()))[name];
    // Its donor is told, in a line.
    if (member === false) await node.says(/guest/i, left());
    arrived.s = since();
    if (member === true) {
      await gateway.until(sellers, (ids) => ids.includes(arrived.stands.id), left());
      arrived.sells_s = since();
    }
  } catch (error) {
    arrived.stands ??= (await standing(gateway))[name];
    arrived.why = error.message;
  }
  return arrived;
}

/** Makes all machines of an order and lets them join a gateway: `[{kind, name, s, stands, …}]`. */
export async function arrivals(lab, gateway, seed) {
  const coming = order(seed);
  const machines = [];
  for (const { kind, name } of coming) machines.push(await KINDS[kind].place(lab, name, gateway));
  const under = [];
  for (const [at, one] of coming.entries()) {
    if (one.alone) await Promise.all(under);
    const arriving = arrive(gateway, one, machines[at]);
    // It is looked at below; until then nobody awaits it.
    arriving.catch(() => {});
    under.push(arriving);
  }
  return Promise.all(under);
}
