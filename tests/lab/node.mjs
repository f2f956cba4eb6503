// A process of `manyhands up` on a machine of the lab, and what its API says if it is a gateway.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BINARY } from "./machine.mjs";

/** How long a node may take to greet, and a story waits for one thing, ms. It ends what hangs. */
const PATIENCE = 60_000;

/** How long is waited for an event before the API is asked all the same, ms: not every change is an event. */
const PACE = 500;

export class Node {
  #args;
  #child;
  #lines = [];
  #listeners = new Set();

  /** Returns when the node has greeted. */
  static async up(machine, args) {
    const node = new Node();
    node.machine = machine;
    node.name = machine.name;
    node.#args = args;
    await node.again();
    return node;
  }

  /** Starts it once more, with the same words and the same data. */
  async again() {
    this.#lines = [];
    this.#child = await this.machine.spawn(BINARY, ["up", ...this.#args]);
    for (const name of ["stdout", "stderr"]) this.#hear(this.#child[name].setEncoding("utf8"));
    await this.says(/Ctrl-C ends it/);
  }

  #hear(stream) {
    let rest = "";
    stream.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      this.#lines.push(...lines);
      for (const listener of this.#listeners) listener();
    });
    stream.on("end", () => this.#listeners.forEach((listener) => listener()));
  }

  /** All that it has printed. */
  get said() {
    return this.#lines.join("\n");
  }

  get running() {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Waits until it prints a line like this, which may have been before. */
  says(line, patience = PATIENCE) {
    const { promise, resolve, reject } = Promise.withResolvers?.() ?? withResolvers();
    const listener = () => {
      const found = this.#lines.find((text) => line.test(text));
      if (found !== undefined) resolve(found);
      else if (!this.running) reject(new Error(`${this.name} ended before it said ${line}:\n${this.said}`));
    };
    const timer = setTimeout(() => reject(new Error(`${this.name} did not say ${line} in ${patience} ms:\n${this.said}`)), patience);
    this.#listeners.add(listener);
    this.#child.once("close", listener);
    listener();
    return promise.finally(() => {
      clearTimeout(timer);
      this.#listeners.delete(listener);
    });
  }

  /** The text in the greeting behind a name, such as "join with". */
  greeting(name) {
    return this.#lines.find((line) => line.startsWith(name))?.slice(name.length).trim();
  }

  get token() {
    return readFileSync(join(this.greeting("data"), "token"), "utf8").trim();
  }

  /** For machines that have v4, the lab itself among them. */
  get url() {
    return `http://${this.machine.v4}:8080`;
  }

  /** The variables by which commands on other machines reach this gateway. */
  get env() {
    return { MANYHANDS_GATEWAY: `http://${this.name}.example:8080`, MANYHANDS_TOKEN: this.token };
  }

  async kill(signal = "SIGKILL") {
    if (!this.running) return;
    this.#child.kill(signal);
    await once(this.#child, "close");
  }

  /** Stops it, or has it go on, without its knowing. */
  signal(signal) {
    this.#child.kill(signal);
  }

  async api(path, signal) {
    const headers = { Authorization: `Bearer ${this.token}` };
    const answer = await fetch(`${this.url}/api/v1/${path}`, { headers, signal });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /**
   * Waits until `enough` of what `look` makes of the API; gives that. Looks when the gateway says that
   * something changed, and now and then besides.
   */
  async until(look, enough, patience = PATIENCE) {
    const closing = new AbortController();
    const deadline = performance.now() + patience;
    const headers = { Authorization: `Bearer ${this.token}`, Accept: "text/event-stream" };
    let last;
    try {
      const answer = await fetch(`${this.url}/api/v1/events`, { headers, signal: closing.signal });
      const reader = answer.body.getReader();
      let event = reader.read();
      event.catch(() => {});
      for (;;) {
        last = await look(this);
        if (enough(last)) return last;
        const left = deadline - performance.now();
        if (left <= 0) break;
        if (await first(event, Math.min(left, PACE))) {
          event = reader.read();
          event.catch(() => {});
        }
      }
    } finally {
      closing.abort();
    }
    throw new Error(`${this.name}: what was waited for did not come in ${patience} ms; it stands at ${JSON.stringify(last)}`);
  }
}

/** Whether `promise` comes before so many ms are over. */
async function first(promise, ms) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, ms, false)));
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

function withResolvers() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

/**
 * How each node stands in the swarm, as this gateway sees it: by name `{id, guest, tree, ring}`. The gateway
 * knows all of a small swarm.
 */
export async function standing(gateway) {
  const [{ nodes }, tree, ring] = await Promise.all([gateway.api("nodes"), gateway.api("tree"), gateway.api("ring")]);
  const inTree = [tree.me, ...tree.above, ...tree.siblings, ...tree.peers, ...tree.children].map(({ id }) => id);
  const inRing = [ring.me, ring.predecessor, ...ring.successors, ...ring.fingers].filter(Boolean).map(({ id }) => id);
  const stands = ({ id, guest }) => ({ id, guest, tree: inTree.includes(id), ring: inRing.includes(id) });
  return Object.fromEntries(nodes.map((node) => [node.name, stands(node)]));
}

/** Ids of the nodes that sell something (cycles or space), as this gateway has seen the markets last. */
export async function sellers(gateway) {
  const { commodities, selling } = await gateway.api("market");
  return [...commodities.flatMap(({ offers }) => offers), ...selling].map(({ seller }) => seller);
}

/** It is no guest, and has its places in the tree and in the ring. */
export const isMember = (stands) => stands !== undefined && !stands.guest && stands.tree && stands.ring;

/** It is a guest. The tree names guests too, beside their hosts. */
export const isGuest = (stands) => stands !== undefined && stands.guest && !stands.ring;
