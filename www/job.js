// One job: how far it is, why it stands there, who computes, what came out.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { ago, count, exactTime, moment, percent, plural, shortNode, size, span } from "./format.js";
import { sure } from "./form.js";
import { inCredits } from "./money.js";
import { queuePlot, waits } from "./plot.js";
import { badge, bar, empty, isOver, shortly, showFigures } from "./progress.js";
import { unitsPart } from "./units.js";
import { outputPart } from "./results.js";
import { allOutput } from "./output.js";
import { errorText } from "./text.js";

/** @import { Row } from "./dom.js" */
/** @import { View } from "./live.js" */
/** @import { Figure } from "./progress.js" */

/** Speed is that of so many seconds: steady enough to tell the time that is left. */
const WINDOW = 30_000;

/** @param {string} id @returns {View} */
export function jobView(id) {
  const title = h("h1", { class: "long" }, "Job");
  const state = badge("waiting");
  const ident = h("code", { class: "soft small" });
  const cancel = h("button", { type: "button", class: "button danger slim", hidden: true }, "Cancel the job");
  const reason = h("p", { class: "reason" });
  const progress = bar(true);
  const done = h("p", { class: "number" });
  const pace = h("p", { class: "soft number" });
  const legend = h("ul", { class: "legend" });
  const facts = h("dl", { class: "figures" });
  const plot = queuePlot();
  const waited = h("p", { class: "soft small number" });
  const waitingPart = h("section", { "aria-labelledby": "queue", hidden: true },
    h("h2", { id: "queue" }, "Waiting units"), h("div", { class: "card pad" }, plot.element, waited));
  const people = h("tbody");
  const workers = h("section", { "aria-labelledby": "workers", hidden: true },
    h("h2", { id: "workers" }, "Who computed"),
    h("div", { class: "card" }, h("table", { class: "rows by-node" }, h("caption", { class: "sr-only" }, "Nodes that computed units of this job"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Node"), h("th", { scope: "col", class: "right" }, "Units"), h("th", { scope: "col", class: "right" }, "CPU time"))), people)));
  const output = outputPart(id);
  const everything = allOutput(id);
  const units = unitsPart(id, () => view.nudge?.());
  const fault = h("p", { class: "note error", role: "alert", hidden: true });
  const status = h("p", { class: "sr-only", role: "status" });
  /** @type {Past} */
  const history = [];
  /** @type {Api.Job | null} */
  let job = null;
  let frame = 0;

  const element = h("div", { class: "page" },
    h("div", { class: "head job-head" },
      h("div", { class: "titles" }, h("p", { class: "small" }, h("a", { href: "#/jobs" }, "Jobs")), title, h("p", { class: "row tight" }, state.element, ident)),
      cancel),
    status, fault,
    h("section", { class: "card pad", "aria-label": "Progress" }, reason, progress.element, h("div", { class: "under-bar" }, done, pace), legend, facts),
    output.element, everything.element, waitingPart, workers, units.element);

  /** @type {View} */
  const view = {
    title: "Job",
    element,
    stream: `/jobs/${encodeURIComponent(id)}/events`,
    missing: () => empty("There is no such job here",
      h("p", null, `This gateway keeps no job “${id}”. It may have been submitted to another gateway, or the address is not complete.`),
      h("p", { class: "row" }, h("a", { class: "button", href: "#/jobs" }, "See all jobs"))),
    // An event carries the job; the units below it are read at the pace of loads.
    onEvent(name, data) {
      const next = /** @type {Partial<Api.Job> | null} */ (data);
      if (name === "job" && next?.units) {
        cancelAnimationFrame(frame);
        frame = requestAnimationFrame(() => show(/** @type {Api.Job} */ (next)));
      }
      return false;
    },
    async load(signal) {
      const job = await api.job(id, signal);
      show(job);
      await Promise.all([units.load(job, signal), output.load(job, signal)]);
      return isOver(job);
    },
    close() {
      cancelAnimationFrame(frame);
      everything.close();
    },
  };

  /** A wait that nobody would notice is not shown. @param {Api.Job} job */
  function showQueue({ queue = [], state }) {
    const [first, newest] = [queue[0], queue.at(-1)].map((step) => moment(step?.at)?.getTime() ?? Date.now());
    const until = newest && queue.at(-1)?.waiting ? Date.now() : newest ?? 0;
    const isSeen = queue.length > 0 && until - (first ?? until) > 2000;
    setHidden(waitingPart, !isSeen);
    if (!isSeen) return;
    plot.draw(queue, isOver({ state }));
    setHidden(plot.element, false);
    const told = waits(queue);
    setText(waited, told && `Of the units that found a node, ${told}.`);
  }

  /** @param {Api.Job} next */
  function show(next) {
    cancelAnimationFrame(frame);
    job = next;
    view.title = `${percent(ended(job), job.units.total)} ${job.name || job.short}`;
    setText(title, job.name || "Unnamed job");
    setText(ident, job.id);
    state.update(job.state);
    setText(reason, job.reason || WORDS[job.state] || "");
    setText(status, `The job is ${job.state}.`);
    progress.update(job.units, "Units of this job that have ended");
    setText(done, `${shortly(job.units)} ${job.units.total === 1 ? "unit" : "units"}`);
    setText(pace, speed(history, job));
    showLegend(legend, job.units);
    showFacts(facts, job);
    showQueue(job);
    setHidden(cancel, isOver(job));
    setHidden(workers, !job.by_node?.length);
    renew(people, job.by_node ?? [], (row) => row.node, workerRow);
    everything.show(job);
  }

  cancel.addEventListener("click", async () => {
    if (!job || !(await meant(job))) return cancel.focus();
    cancel.disabled = true;
    setHidden(fault, true);
    try {
      show(await api.cancel(id));
      view.nudge?.();
    } catch (error) {
      setText(fault, `The job was not cancelled. ${errorText(error)}`);
      setHidden(fault, false);
    }
    cancel.disabled = false;
  });

  return view;
}

/** @type {Record<Api.JobState, string>} */
const WORDS = {
  waiting: "Waiting for a node with a free slot.",
  running: "Units are on their runners.",
  done: "All units ended well.",
  failed: "All units ended, some of them badly.",
  cancelled: "Cancelled.",
};

/** @param {Api.Job} job */
const ended = (job) => job.units.done + job.units.failed + job.units.held;

/**
 * How many units had ended, and when: milliseconds on the page's clock.
 * @typedef {[at: number, ended: number][]} Past
 */

/**
 * `14 units a second, about 3 min left`; empty when the job is over or too new.
 * @param {Past} history
 * @param {Api.Job} job
 */
function speed(history, job) {
  const now = performance.now();
  if (isOver(job)) return "";
  history.push([now, ended(job)]);
  while (history.length > 2 && now - (history[0]?.[0] ?? now) > WINDOW) history.shift();
  const [at, then] = history[0] ?? [now, 0];
  const perSecond = ((ended(job) - then) * 1000) / (now - at);
  if (now - at < 2000 || !(perSecond > 0)) return "";
  const pace = perSecond >= 1 ? `${plural(Math.round(perSecond), "unit")} a second` : `${plural(Math.max(1, Math.round(perSecond * 60)), "unit")} a minute`;
  return `${pace}, about ${span(Math.ceil((job.units.total - ended(job)) / perSecond))} left`;
}

/** States that the legend names, in its order. */
const STATES = /** @type {const} */ (["done", "placed", "waiting", "failed", "held"]);

/** @param {Element} legend @param {Api.UnitCounts} units */
function showLegend(legend, units) {
  const rows = STATES.map((state) => ({ state, n: units[state] })).filter(({ n }) => n > 0);
  renew(legend, rows, ({ state }) => state, ({ state }) => {
    const words = h("span", { class: "number" });
    return {
      element: h("li", null, h("span", { class: "swatch", "data-state": state, "aria-hidden": "true" }), words),
      update: (/** @type {{ n: number }} */ { n }) => setText(words, `${count(n)} ${state}`),
    };
  });
}

/** @param {Element} facts @param {Api.Job} job */
function showFacts(facts, job) {
  const end = moment(job.ended_at);
  const began = moment(job.submitted_at) ?? new Date();
  /** @type {Figure[]} */
  const rows = [
    ["Submitted", ago(job.submitted_at), exactTime(job.submitted_at)],
    [isOver(job) ? "Took" : "Runs for", span(((end ?? new Date()).getTime() - began.getTime()) / 1000)],
    ["CPU time", span(job.cpu_s)],
    ["Placements lost", count(job.lost_placements), "Units whose runner vanished; they were placed again elsewhere."],
    ["Results that came twice", count(job.duplicates), "Counted once."],
    ...fittingFigures(job.fitting),
    ...(job.cost ? /** @type {Figure[]} */ ([
      ["Paid", inCredits(job.cost.paid), "For what was computed and accepted."],
      ["Held", inCredits(job.cost.held), "Put aside at the bank for units that have not ended; what is left of it comes back."],
      ["At most", inCredits(job.cost.most), "What the job may cost in all. It is never more."],
    ]) : []),
  ];
  showFigures(facts, rows);
}

/** Rows of a job with requirements. @param {Api.Fitting | null | undefined} fitting @returns {Figure[]} */
function fittingFigures(fitting) {
  if (!fitting) return [];
  const { memory, speed: fuel, disk, platform, os, arch, labels } = fitting.requires;
  const words = [
    memory && `${size(memory)} of memory`, fuel && `${fuel / 1e9} thousand million of fuel a second`, disk && `${size(disk)} of disk`,
    platform && platform !== "either" && `a ${platform === "browser" ? "page" : "server"}`, os, arch,
    ...Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`),
  ].filter(Boolean);
  /** @type {Figure[]} */
  const rows = [["A node must have", words.join(", ") || "nothing more than the job’s limits"]];
  const { waits } = fitting;
  if (!waits) return rows;
  const places = [plural(waits.meetings.length, "meeting node"), ...(waits.capable.length ? [`${plural(waits.capable.length, "node")} that can run it`] : [])];
  return [...rows,
    ["Nodes that have it", `about ${count(waits.able)} of ${count(waits.nodes)}`, "Of those of the swarm that run something, when units of the job began to wait."],
    ["Share of its submitter", `${plural(waits.running, "unit")} ${waits.running === 1 ? "runs" : "run"}, weight ${waits.weight}`, "The more units of one submitter run, the longer its other units wait beside those of others: who submits ten has them run among ten thousand of somebody else."],
    ["Marked at", places.join(", "), "There nodes with a free slot look; whichever is free first takes a unit."]];
}

/** @returns {Row<Api.NodeShare>} */
function workerRow() {
  const name = h("span", { class: "name" });
  const short = h("span", { class: "soft small mono" });
  const units = h("td", { class: "right number", "data-label": "Units" });
  const cpu = h("td", { class: "right number", "data-label": "CPU time" });
  return {
    element: h("tr", null, h("th", { scope: "row" }, name, short), units, cpu),
    update(row) {
      const known = row.short || shortNode(row.node);
      setText(name, row.name || known);
      setText(short, row.name ? known : "");
      name.title = row.node;
      setText(units, count(row.units));
      setText(cpu, span(row.cpu_s));
    },
  };
}

/** Asks before what cannot be taken back. @param {Api.Job} job */
function meant(job) {
  const left = job.units.total - ended(job);
  return sure({
    title: "Cancel this job?",
    words: `${plural(left, "unit")} that ${left === 1 ? "has" : "have"} not ended will not run any more. Results that are there stay. This cannot be taken back.`,
    no: "Let it run",
    yes: "Cancel the job",
  });
}
