// The list of jobs.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { ago, exactTime, plural, span } from "./format.js";
import { badge, bar, empty, inWords, shortly } from "./progress.js";

/** @import { Row } from "./dom.js" */
/** @import { View } from "./live.js" */

const PAGE = 25;

/** @param {string} caption */
export function jobsTable(caption) {
  const body = h("tbody");
  const table = h("table", { class: "rows jobs" },
    h("caption", { class: "sr-only" }, caption),
    h("thead", null, h("tr", null,
      ["Job", "State", "Progress", "CPU time", "Submitted"].map((title, i) => h("th", { scope: "col", class: i > 2 ? "right" : null }, title)))),
    body);
  return { table, body };
}

/** @returns {Row<Api.Job>} */
export function jobRow() {
  const link = h("a", { class: "name" });
  const short = h("span", { class: "soft small mono" });
  const state = badge("waiting");
  const progress = bar();
  const words = h("span", { class: "small number" });
  const cpu = h("td", { class: "right number", "data-label": "CPU time" });
  const when = h("time");
  return {
    element: h("tr", null,
      h("th", { scope: "row" }, link, short),
      h("td", { class: "state" }, state.element),
      h("td", { class: "progress" }, progress.element, words),
      cpu,
      h("td", { class: "right", "data-label": "Submitted" }, when)),
    update(job) {
      link.href = `#/jobs/${encodeURIComponent(job.id)}`;
      setText(link, job.name || "unnamed job");
      setText(short, job.short);
      state.update(job.state);
      progress.update(job.units, `Progress of ${job.name || job.short}`);
      setText(words, shortly(job.units) + (job.units.failed ? `, ${job.units.failed} failed` : ""));
      words.title = inWords(job.units);
      setText(cpu, span(job.cpu_s));
      setText(when, ago(job.submitted_at));
      when.title = exactTime(job.submitted_at);
    },
  };
}

/** @returns {View} */
export function jobsView() {
  const { table, body } = jobsTable("Jobs, newest first");
  const newer = h("button", { type: "button", class: "button slim" }, "Newest");
  const older = h("button", { type: "button", class: "button slim" }, "Older");
  const where = h("span", { class: "soft small" });
  const pager = h("div", { class: "pager" }, where, newer, older);
  const list = h("div", { class: "card" }, table, pager);
  const none = empty("No job yet",
    h("p", null, "A job is a WebAssembly program with its inputs, run once or many times. Submit one here:"),
    h("p", { class: "row" }, h("a", { class: "button primary", href: "#/submit" }, "Submit a program")),
    h("p", { class: "soft" }, "Or on the command line, one unit for each input file:"),
    h("code", { class: "command" }, "manyhands map program.wasm -- inputs/*"));
  const element = h("div", { class: "page" },
    h("div", { class: "head" }, h("h1", null, "Jobs"), h("a", { class: "button primary", href: "#/submit" }, "Submit a program")),
    list, none);
  list.hidden = none.hidden = true;

  /** @type {string | null} */
  let cursor = null;
  /** @type {string | null} */
  let next = null;
  let page = 1;
  /** @type {View} */
  const view = {
    title: "Jobs",
    element,
    stream: "/events",
    onEvent: (name) => name !== "jobs",
    async load(signal) {
      const asked = cursor;
      const answer = await api.jobs(PAGE, asked, signal);
      if (asked !== cursor) return;
      next = answer.next ?? null;
      const empty = answer.jobs.length === 0 && page === 1;
      setHidden(list, empty);
      setHidden(none, !empty);
      renew(body, answer.jobs, (job) => job.id, jobRow);
      setText(where, next || page > 1 ? `Page ${page}` : plural(answer.jobs.length, "job"));
      setHidden(newer, page === 1);
      setHidden(older, !next);
    },
  };
  /** @param {string | null} to @param {number} number */
  const turn = (to, number) => {
    cursor = to;
    page = number;
    view.nudge?.();
    element.scrollIntoView({ block: "start" });
  };
  newer.addEventListener("click", () => turn(null, 1));
  older.addEventListener("click", () => turn(next, page + 1));
  return view;
}
