// One donation, from Start to Stop: owns the node's Worker, starts it again when it fails, and
// keeps the totals over those restarts. Knows nothing of the page that shows it.

import { Peers, handsOver } from "./peers.js";
import { errorText } from "./text.js";

/** @import { FromNode, Knows, Options, Policy, PolicyNow, Sales, ToNode, Work } from "./messages.js" */

/** Waits before each restart, milliseconds. After the last one it gives up and says so. */
const RESTARTS = [1000, 2000, 4000, 8000, 16000];
/** A Worker that worked so long has recovered: the next failure counts as a first one. */
const RECOVERED = 60_000;
/** A slow line needs this long for the node's program; longer silence is a failure. Our choice. */
const LOADING = 60_000;
/**
 * A node that has its program begins within milliseconds. In Firefox some stand still for ever when they create their
 * first slot, mostly while another page opens: `new Worker` does not return in a Worker. Our choice.
 */
const BEGINNING = 10_000;
/** How long a Worker may take to say good-bye; then it is ended all the same. */
const GOODBYE = 300;
/** Before that, to hand its work on: a task of 64 MiB is written down and sent in this time. */
const HANDING_ON = 2500;
/** Time to hand work on when the page goes away, ms: whatever the browser still lets it do. */
const IN_A_HURRY = 300;

/** @type {Work} */
const NO_WORK = { slots: 0, busy: 0, queued: 0, units_done: 0, units_failed: 0, cpu_us: 0, current: [], idle_reason: null };

/** @type {PolicyNow} */
const FREE = { works: true, reasons: [], wait_s: null, unknown: [], faults: [] };

/** The name under which this tab left things when it was loaded before (`left.js`); a tab may be denied to keep it. */
const lastName = () => tryStorage(() => sessionStorage.getItem("manyhands-name"));
/** @param {string} name */
const rememberName = (name) => tryStorage(() => sessionStorage.setItem("manyhands-name", name));

/** @template Value @param {() => Value} use */
function tryStorage(use) {
  try {
    return use();
  } catch {
    return null;
  }
}

/**
 * @typedef {"off" | "starting" | "connecting" | "connected" | "offline" | "rejected" | "restarting" | "failed" | "stopping"} Phase
 */

/**
 * Phases: `off`, `starting`, `connecting`, `connected`, `offline`, `rejected`, `restarting`,
 * `failed` (gave up), `stopping`. Fires "change" whenever something that is shown changed, "policy" when what the
 * donor's policy comes to did.
 */
export class Session extends EventTarget {
  /** @type {Phase} */
  phase = "off";
  detail = "";
  /** @type {string | null} */
  node = null;
  /** @type {string | null} */
  short = null;
  /** @type {string | null} */
  gateway = null;
  work = NO_WORK;
  /** The tab's sales, if its gateway trades: `{cost, listed, balance}`, in micro-credits. @type {Sales | null} */
  sales = null;
  /** Effect of the donor's policy now: `{works, reasons: [{reason, until}], wait_s, unknown, faults}`. */
  policy = FREE;
  /**
   * The last fault: `{message, restart, of, at}`, `at` being the time of the restart, milliseconds since 1970.
   * @type {{ message: string, restart: number, of: number, at: number | null } | null}
   */
  failure = null;

  /** Name under which this tab's state is kept for when it is loaded again; none where the browser keeps nothing. @type {string | null} */
  name = null;

  #makeWorker;
  /** @type {Options | null} */
  #options = null;
  /** @type {Worker | null} */
  #worker = null;
  /** Connections of the Worker's node. @type {Peers | null} */
  #peers = null;
  #timer = 0;
  #failures = 0;
  #startedAt = 0;
  #before = { units_done: 0, units_failed: 0, cpu_us: 0 };

  /** @param {() => Worker} [makeWorker] */
  constructor(makeWorker = () => new Worker("/node-worker.js", { type: "module", name: "manyhands-node" })) {
    super();
    this.#makeWorker = makeWorker;
  }

  get running() {
    return !["off", "failed", "stopping"].includes(this.phase);
  }

  /** Whether it has been started, ever. */
  get hasRun() {
    return this.#options !== null;
  }

  /** Work that this page gave since it was opened, earlier Workers included. */
  get totals() {
    return {
      units_done: this.#before.units_done + this.work.units_done,
      units_failed: this.#before.units_failed + this.work.units_failed,
      cpu_us: this.#before.cpu_us + this.work.cpu_us,
    };
  }

  /**
   * `{gateway, slots, policy, knows, name?, invite?, speed?}` as the Worker takes them. After a refusal, once more.
   * @param {Options} options
   */
  start(options) {
    if (this.running && this.phase !== "rejected") return;
    this.#end();
    this.#options = { ...options };
    this.#failures = 0;
    this.failure = null;
    this.#launch();
  }

  /** @param {number} n */
  setSlots(n) {
    if (!this.#options) return;
    this.#options.slots = n;
    if (this.running) this.#tell({ type: "slots", n });
  }

  /** The donor's settings, by their names. @param {Policy} policy */
  setPolicy(policy) {
    if (!this.#options) return;
    this.#options.policy = policy;
    if (this.running) this.#tell({ type: "policy", policy });
  }

  /** Sets the page's knowledge of its computer (`computer.js`). @param {Knows} knows */
  setKnows(knows) {
    if (!this.#options) return;
    this.#options.knows = knows;
    if (this.running) this.#tell({ type: "knows", knows });
  }

  stop() {
    if (this.running) this.#stop(HANDING_ON);
  }

  /** The page goes away: little time is left. */
  leave() {
    if (this.running || this.phase === "stopping") this.#stop(IN_A_HURRY);
  }

  /**
   * Says something to the node; whether there is one. What it answers is a "heard" event, with the message as its
   * `detail`; "ended" says that it answers no more.
   * @param {ToNode} message
   */
  say(message) {
    this.#tell(message);
    return this.#worker !== null && this.phase !== "stopping";
  }

  /** @param {ToNode} message */
  #tell(message) {
    this.#worker?.postMessage(message);
  }

  /** @param {number} patience milliseconds */
  #stop(patience) {
    clearTimeout(this.#timer);
    this.failure = null;
    if (!this.#worker) return this.#set("off", "");
    this.#tell({ type: "stop", patience });
    // Nothing of the tab computes any more once the Worker is ended. Units that it has handed on by
    // then go on elsewhere; all others begin there again, or where they were last kept.
    this.#timer = setTimeout(() => this.#ended(), patience + GOODBYE);
    this.#set("stopping", "");
  }

  #launch() {
    const options = this.#options;
    if (!options) return;
    this.node = this.short = this.gateway = null;
    this.#startedAt = Date.now();
    this.#set("starting", "");
    /** @type {Worker} */
    let worker;
    try {
      worker = this.#makeWorker();
    } catch (error) {
      return this.#failed(`The browser refused to start a Worker: ${errorText(error)}`);
    }
    this.#worker = worker;
    this.#peers = new Peers((message, transfer = []) => worker.postMessage(message, transfer));
    worker.onmessage = (event) => worker === this.#worker && this.#heard(event.data);
    worker.onmessageerror = () => worker === this.#worker && this.#failed("The Worker sent something unreadable.");
    worker.onerror = (event) => {
      event.preventDefault();
      if (worker !== this.#worker) return;
      this.#failed(event.message || "Its program could not be loaded from the gateway.");
    };
    this.#tell({ type: "start", channels: handsOver(), ...options, last: lastName() });
    this.#expect(LOADING, "its start");
  }

  /** The Worker fails unless it says more within so many milliseconds. @param {number} patience @param {string} since */
  #expect(patience, since) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#failed(`It gave no sign of life for ${patience / 1000} s after ${since}.`), patience);
  }

  /** @param {FromNode} message */
  #heard(message) {
    switch (message.type) {
      case "status":
        if (this.phase === "stopping") return;
        clearTimeout(this.#timer);
        this.node = message.node ?? this.node;
        this.short = message.short ?? this.short;
        this.gateway = message.gateway || null;
        this.work = { ...NO_WORK, ...message.work };
        this.sales = message.sales ?? null;
        if (Date.now() - this.#startedAt > RECOVERED) {
          this.#failures = 0;
          this.failure = null;
        }
        return this.#set(message.state, message.detail ?? "");
      case "policy":
        this.policy = message;
        this.dispatchEvent(new Event("policy"));
        return this.dispatchEvent(new Event("change"));
      case "rtc_open":
      case "rtc_remote":
      case "rtc_try":
      case "rtc_close":
        return this.#peers?.heard(message);
      case "loaded":
        this.name = message.name;
        if (message.name) rememberName(message.name);
        if (this.phase === "starting") this.#expect(BEGINNING, "its program had come");
        return;
      case "answer":
      case "jobs":
        this.dispatchEvent(new CustomEvent("heard", { detail: message }));
        return;
      case "stopped":
        return this.phase === "stopping" ? this.#ended() : undefined;
      case "fatal":
        return this.phase === "stopping" ? this.#ended() : this.#failed(message.message || "It gave no reason.");
    }
  }

  /** @param {string} message */
  #failed(message) {
    this.#end();
    const wait = RESTARTS[this.#failures];
    this.#failures += 1;
    if (wait === undefined) {
      this.failure = { message, restart: this.#failures - 1, of: RESTARTS.length, at: null };
      return this.#set("failed", message);
    }
    this.failure = { message, restart: this.#failures, of: RESTARTS.length, at: Date.now() + wait };
    this.#timer = setTimeout(() => this.#launch(), wait);
    this.#set("restarting", message);
  }

  #ended() {
    this.#end();
    this.#set("off", "");
  }

  #end() {
    clearTimeout(this.#timer);
    if (this.#worker) this.dispatchEvent(new Event("ended"));
    this.#worker?.terminate();
    this.#worker = null;
    this.#peers?.end();
    this.#peers = null;
    this.#before = this.totals;
    this.work = NO_WORK;
    this.sales = null;
    this.policy = FREE;
  }

  /** @param {Phase} phase @param {string} detail */
  #set(phase, detail) {
    this.phase = phase;
    this.detail = detail;
    this.dispatchEvent(new Event("change"));
  }
}
