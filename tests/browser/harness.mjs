// A swarm for one test: processes of the real binary, tabs of a real browser, the real API.
//
// Nothing here sleeps. A story goes on when a process says that it is ready, when the gateway's
// events say that something changed, or when a page shows it. Everything that it started ends with
// it, also when the setup fails before the story has a hook that would end it.
//
// A claim that cannot come true any more fails at once, and says why: a job or a unit that has ended
// changes no more, and a process or a page that ended by itself brings every wait to an end.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test as base } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium, firefox } from "playwright-core";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.MANYHANDS ?? join(ROOT, "target/release/manyhands");

/** An example task, as a module for the swarm. */
export const guest = (name) => join(dirname(BINARY), "../wasm/wasm32-wasip1/release", `${name}.wasm`);

/** An example task, compiled for this machine: its output is the right one. */
export const native = (name) => join(dirname(BINARY), name);

/** Runs a program to its end: `{code, stdout, stderr}`, the output as text. */
export async function execute(program, args, { stdin, ...options } = {}) {
  const child = spawn(program, args, { ...options, stdio: ["pipe", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => (output[name] += text));
  }
  // A program that does not read its input is none of our business.
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  const [code] = await once(child, "close");
  return { code, ...output };
}

/** Processes that live. Whatever ends this one, they do not outlive it. */
const living = new Set();
process.on("exit", () => living.forEach((child) => child.kill("SIGKILL")));

/** A process of `manyhands up`. */
class Node {
  #child;
  #said = "";
  #line;
  /** The story has ended it. */
  #killed = false;

  /** `lost` is called with an error if it ends by itself. */
  constructor(args, data, lost) {
    const all = ["--data", data, "up", "--ready-json", "--until-stdin-closes", ...args];
    const child = spawn(BINARY, all, { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    living.add(child);
    child.stdin.on("error", () => {});
    child.stderr.setEncoding("utf8").on("data", (text) => (this.#said = (this.#said + text).slice(-8000)));
    const ended = once(child, "close").then(([code, signal]) => {
      living.delete(child);
      throw new Error(`manyhands ${all.join(" ")} ended (${signal ?? code}) before it was ready:\n${this.#said}`);
    });
    ended.catch(() => {});
    this.#line = Promise.race([once(createInterface(child.stdout), "line"), ended]);
    this.#line.catch(() => {});
    child.once("close", (code, signal) => {
      if (!this.#killed) lost(new Error(`${basename(data)} ended by itself (${signal ?? code}):\n${this.#said}`));
    });
  }

  /** Returns when the node says that it is ready. */
  async ready() {
    const [line] = await this.#line;
    Object.assign(this, JSON.parse(line));
    if (this.token_file) this.token = (await readFile(this.token_file, "utf8")).trim();
    return this;
  }

  get pid() {
    return this.#child.pid;
  }

  /** The end of its log. */
  get log() {
    return this.#said;
  }

  /** Ends it as a power cut would, or otherwise as `signal` says. Gives its exit code, or the signal. */
  async kill(signal = "SIGKILL") {
    this.#killed = true;
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return signalCode ?? exitCode;
    const closed = once(this.#child, "close");
    this.#child.kill(signal);
    const [code, by] = await closed;
    return by ?? code;
  }
}

/**
 * How long a story waits for one thing, ms. Many times what a slow machine needs: it ends what hangs.
 * For a job it is counted from its last event on: each checkpoint is one, and a task, which gets what
 * nobody else wants of a processor, may need any time on a machine that has others to serve. The
 * test's own timeout bounds that.
 */
const PATIENCE = 60_000;

/** The exception is trade: a market opens 45 s after it began, and a search for sellers goes on for a minute. */
export const TRADE = 120_000;

/** Bounds a test in which something happens again and again, and never what was waited for. */
const LONGEST = 300_000;

/** A test of node's runner with that bound. */
export const test = (name, ...rest) => {
  const story = rest.pop();
  return base(name, { timeout: LONGEST, ...rest[0] }, story);
};

/** The distribution's Firefox, which speaks WebDriver BiDi: Playwright's own builds are not needed. */
export const FIREFOX = process.env.FIREFOX || "/usr/bin/firefox-esr";

/** Launches each browser, with further words on its command line. */
const BROWSERS = {
  chromium: (args) => chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", ...args],
  }),
  async firefox(args) {
    const browser = await firefox.launch({
      channel: "moz-firefox",
      executablePath: FIREFOX,
      // Stories have this machine's loopback interface alone, which Firefox leaves out of ICE.
      firefoxUserPrefs: { "media.peerconnection.ice.loopback": true },
      args,
    });
    // Playwright 1.65 sets a colour scheme for each context by a command that Firefox 153 does not know.
    const session = browser._connection.toImpl(browser)._browserSession;
    const send = session.send.bind(session);
    session.send = async (method, ...rest) => (method === "emulation.setMediaFeaturesOverride" ? {} : send(method, ...rest));
    return browser;
  },
};

/** States of a job, and of a unit, that change no more. */
const OVER = ["done", "failed", "cancelled"];

/** A gateway with what joins it. Made for one test, and gone with it. */
export class Swarm {
  #data;
  #nodes = [];
  /** Promises of browsers, by their names. */
  #browsers = new Map();
  /** The story is over: browsers may end. */
  #ended = false;
  /** Aborted with an error when what has to live ended by itself. */
  #lost = new AbortController();
  /** Uncaught errors of pages, in words: a test that expects none looks here. */
  troubles = [];

  /** `story` is the test, or whatever else has an `after` for what is to be done at its end. */
  static async start(story, ...args) {
    const swarm = new Swarm();
    story.after(() => swarm.#end());
    try {
      swarm.#data = await mkdtemp(join(tmpdir(), "manyhands-"));
      const ports = ["--http-port", "0", "--p2p-port", "0", "--ws-port", "0"];
      // Alone by default, so that a test sees who computes.
      await swarm.#gateway([...(args.includes("--slots") ? [] : ["--slots", "0"]), ...ports, ...args]);
      return swarm;
    } catch (error) {
      // After a `before` that throws no `after` is called.
      await swarm.#end();
      throw error;
    }
  }

  async #gateway(args) {
    this.gateway = await this.#up(["--gateway", "--name", "gateway", ...args], "gateway");
    this.url = this.gateway.http.replace(/\/$/, "");
  }

  /** Starts the gateway once more, on the same data and the same ports. */
  async restartGateway(...args) {
    const port = (transport) => {
      const address = this.gateway.addresses.find((one) => transport.test(one));
      return new RegExp("/tcp/(\\d+)").exec(address)[1];
    };
    const ports = ["--http-port", new URL(this.url).port, "--p2p-port", port(/tcp\/\d+\/p2p/), "--ws-port", port(/\/ws/)];
    await this.#gateway([...(args.includes("--slots") ? [] : ["--slots", "0"]), ...ports, ...args]);
  }

  worker(name, slots = 1, ...args) {
    return this.#up(["--join", this.url, "--name", name, "--slots", String(slots), ...args], name);
  }

  /** Starts a worker that is also a gateway beside the first, with an API and markets that can be read. */
  async trader(name, cost, speed) {
    await this.policy(name, `marginal_cost = ${cost}\n`);
    const ports = ["--http-port", "0", "--p2p-port", "0", "--ws-port", "0"];
    const trader = await this.worker(name, 1, "--gateway", "--speed", String(speed), ...ports);
    // It is ready before it is connected. The gateway that it joins by tells it which node is the bank.
    const knows = () => this.api("wallet", { of: trader }).catch(() => undefined);
    await this.#wait("events", knows, () => true, undefined, PATIENCE, trader);
    return trader;
  }

  /** Writes the policy of a node that is started after this. */
  async policy(name, settings) {
    await mkdir(join(this.#data, name), { recursive: true });
    await writeFile(join(this.#data, name, "policy.toml"), settings);
  }

  async #up(args, folder) {
    const node = new Node(args, join(this.#data, folder), (error) => this.#lost.abort(error));
    this.#nodes.push(node);
    return node.ready();
  }

  /** Browser of the tabs that are opened next: `chromium` or `firefox`. */
  browser = "chromium";
  /** Further words for browsers that are not launched yet. */
  browserArgs = [];

  /** The one browser of that name that this swarm's pages share. */
  #launched(name) {
    if (!this.#browsers.has(name)) this.#browsers.set(name, this.#launch(name));
    return this.#browsers.get(name);
  }

  async #launch(name) {
    const browser = await BROWSERS[name](this.browserArgs);
    browser.once("disconnected", () => this.#ended || this.#lost.abort(new Error(`${name} ended by itself`)));
    return browser;
  }

  /** A tab of the browser that `browser` names; `path` may be a URL. */
  async tab(path = "/", options = {}) {
    const browser = await this.#launched(this.browser);
    const context = await browser.newContext(options);
    context.setDefaultTimeout(PATIENCE);
    // Tests run plugged in or not: a tab without a battery spares none.
    await context.addInitScript(() => delete Navigator.prototype.getBattery);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.troubles.push(`${path}: ${error.message}`));
    page.on("crash", () => this.#lost.abort(new Error(`the tab ${path} crashed`)));
    await page.goto(new URL(path, this.url).href);
    return page;
  }

  /** A tab that gives `slots` slots, connected. */
  async donor(name, slots = 1) {
    const page = await this.tab();
    await this.give(page, name, slots);
    return page;
  }

  /** A tab that sells a slot at this cost, or at the usual one: its node's id, and its page. */
  async seller(name, cost, address = "/") {
    const page = await this.tab(address);
    if (cost) {
      await page.locator("#sharing > summary").click();
      // By keys: the field tells of a change that a person made, which `fill` is not in Firefox.
      await page.getByLabel("What the work costs you").pressSequentially(String(cost));
      await page.getByLabel("What the work costs you").blur();
      await page.getByText("Kept in this browser.").waitFor();
    }
    await this.give(page, name);
    const nodes = await this.nodes((nodes) => nodes.some((node) => node.name === name && node.slots === 1));
    return { page, node: nodes.find((node) => node.name === name).id };
  }

  /** Another tab of the browser profile that has this one open. */
  async beside(other) {
    const page = await other.context().newPage();
    await page.goto(this.url);
    return page;
  }

  async give(page, name, slots = 1) {
    await page.getByText("Name this tab").click();
    await page.getByLabel("Name of this tab").fill(name);
    const slider = page.getByRole("slider");
    if (await slider.isEnabled()) await slider.fill(String(slots));
    await page.getByRole("button", { name: "Start", exact: true }).click();
  }

  /** The API's answer; an answer that is no success is an error. */
  async api(path, { method = "GET", body, headers, of = this.gateway } = {}) {
    const answer = await fetch(`${of.http.replace(/\/$/, "")}/api/v1/${path}`, {
      method,
      body,
      headers: { Authorization: `Bearer ${of.token}`, ...headers },
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  async upload(path) {
    return (await this.api("blobs", { method: "POST", body: await readFile(path) })).id;
  }

  submit(job) {
    const headers = { "Content-Type": "application/json" };
    return this.api("jobs", { method: "POST", body: JSON.stringify(job), headers });
  }

  /** Follows a job until `enough(job)`; gives the job as it then was. */
  follow(id, enough) {
    const over = (job) => OVER.includes(job.state) && `the job is ${job.state}, and so it stays`;
    return this.#wait(`jobs/${id}/events`, ({ data }) => data, (job) => job.units && enough(job), over);
  }

  finished(id) {
    return this.follow(id, (job) => OVER.includes(job.state));
  }

  /** Follows one unit of a job until `enough(unit)`; gives it as it then was. */
  unit(id, index, enough) {
    const over = (unit) => OVER.includes(unit.state) && `the unit is ${unit.state}, and so it stays`;
    return this.#wait(`jobs/${id}/events`, () => this.api(`jobs/${id}/units/${index}`), enough, over);
  }

  migrate(id, index, to) {
    const headers = { "Content-Type": "application/json" };
    return this.api(`jobs/${id}/units/${index}/migrate`, { method: "POST", body: JSON.stringify({ to }), headers });
  }

  /** Lets a unit stand still, or go on. */
  pause(id, index, paused) {
    const headers = { "Content-Type": "application/json" };
    return this.api(`jobs/${id}/units/${index}/pause`, { method: "POST", body: JSON.stringify({ paused }), headers });
  }

  /** Waits until the list of nodes is as it should be; gives the list. */
  nodes(enough) {
    const load = async ({ name }) => (name === "nodes" ? (await this.api("nodes")).nodes : undefined);
    return this.#wait("events", load, enough);
  }

  /** Waits until the gateway's part of the tree is as it should be; gives it. */
  tree(enough) {
    const load = async ({ name }) => (name === "nodes" ? this.api("tree") : undefined);
    return this.#wait("events", load, enough);
  }

  /** Waits until the gateway's part of the ring is as it should be; gives it. */
  ring(enough) {
    const load = async ({ name }) => (name === "nodes" ? this.api("ring") : undefined);
    return this.#wait("events", load, enough);
  }

  /** Waits until the gateway's account is as it should be; gives it. */
  wallet(enough) {
    return this.#wait("events", () => this.api("wallet"), enough);
  }

  /** Waits until what a gateway relays for others is as it should be; gives it. */
  relaying(gateway, enough) {
    return this.#wait("events", async () => (await this.api("network", { of: gateway })).relaying, enough);
  }

  /** Waits until what is for sale is as it should be, as a buyer at the gateway finds it; gives all offers. */
  offers(enough) {
    const load = async () => (await this.api("market")).commodities.flatMap(({ offers }) => offers);
    return this.#wait("events", load, enough, undefined, TRADE);
  }

  /**
   * The first that is `enough` of what `load` makes of the events at `path`. `never(now)` says why it cannot
   * come any more, if it cannot. `of`: the gateway whose events these are.
   */
  async #wait(path, load, enough, never = () => false, patience = PATIENCE, of = this.gateway) {
    let last;
    let why = "the gateway ended them";
    try {
      for await (const event of this.#events(path, patience, of)) {
        const now = await load(event);
        if (now === undefined) continue;
        last = now;
        if (enough(now)) return now;
        why = never(now) || why;
        if (never(now)) break;
      }
    } catch (error) {
      if (error.name !== "TimeoutError") throw error;
      why = `${patience / 1000} s are over`;
    }
    throw new Error(`what was waited for in ${path} did not come (${why}); it stands at ${JSON.stringify(last)}`);
  }

  /** Every result of a job, in the order of its units. */
  async results(id) {
    const all = [];
    for (let from = 0; from !== null; ) {
      const page = await this.api(`jobs/${id}/results?from=${from}&limit=500`);
      all.push(...page.results);
      from = page.next;
    }
    return all;
  }

  async *#events(path, ms, of) {
    const closing = new AbortController();
    const headers = { Authorization: `Bearer ${of.token}`, Accept: "text/event-stream" };
    // Not AbortSignal.timeout: combined with another signal it can be collected before it fires.
    const patience = setTimeout(() => closing.abort(new DOMException("too late", "TimeoutError")), ms);
    const lost = () => closing.abort(this.#lost.signal.reason);
    try {
      this.#lost.signal.addEventListener("abort", lost);
      if (this.#lost.signal.aborted) lost();
      for await (const event of this.#eventsUntil(path, of, headers, closing.signal)) {
        if (path.startsWith("jobs/")) patience.refresh();
        yield event;
      }
    } finally {
      clearTimeout(patience);
      this.#lost.signal.removeEventListener("abort", lost);
      closing.abort();
    }
  }

  async *#eventsUntil(path, of, headers, signal) {
    const answer = await fetch(`${of.http.replace(/\/$/, "")}/api/v1/${path}`, { headers, signal });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    let event = { name: "message", data: "" };
    for await (const line of lines(answer.body)) {
      if (line === "") {
        if (event.data) yield { name: event.name, data: JSON.parse(event.data) };
        event = { name: "message", data: "" };
      } else if (line.startsWith("event:")) event.name = line.slice(6).trim();
      else if (line.startsWith("data:")) event.data += line.slice(5).trim();
    }
  }

  async #end() {
    this.#ended = true;
    // One that cannot be ended must not keep the others alive.
    const browsers = [...this.#browsers.values()].map(async (browser) => (await browser).close());
    await Promise.allSettled([...browsers, ...this.#nodes.map((node) => node.kill())]);
    if (this.#data) await rm(this.#data, { recursive: true, force: true });
  }
}

async function* lines(body) {
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

export const stdout = (result) => Buffer.from(result.stdout.base64, "base64").toString();
