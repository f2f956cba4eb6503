// States and progress, as they look everywhere: a word, a sign and a colour, never colour alone.

import { h, renew, setText } from "./dom.js";
import { count, percent } from "./format.js";
import { readable } from "./text.js";

/** @import { Child } from "./dom.js" */

/** @type {Record<string, string>} */
const SIGNS = { waiting: "…", placed: "▶", running: "▶", done: "✓", failed: "✕", held: "‖", cancelled: "–", kept: "✓", placing: "…" };

/** Meaning of each state of a unit, for headings and hints. @type {Record<string, string>} */
export const UNIT_STATES = {
  waiting: "not placed yet",
  placed: "on a runner, queued or running there",
  done: "ended well",
  failed: "ended badly",
  held: "set aside",
  cancelled: "cancelled before its end",
};

/** @param {string} state */
export function badge(state) {
  const sign = h("span", { class: "sign", "aria-hidden": "true" });
  const word = h("span");
  const element = h("span", { class: "badge" }, sign, word);
  /** @param {string} next */
  const update = (next) => {
    if (element.dataset.state === next) return;
    element.dataset.state = next;
    setText(sign, SIGNS[next] ?? "?");
    setText(word, next);
  };
  update(state);
  return { element, update };
}

/** States that a bar shows, in its order. */
const PARTS = /** @type {const} */ (["done", "failed", "held", "placed"]);

/** A bar of a job's units by state; `update(units, label)`. */
export function bar(large = false) {
  const parts = PARTS.map((state) => ({ state, part: h("span", { "data-state": state }) }));
  const element = h("div", { class: large ? "bar large" : "bar", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" },
    parts.map(({ part }) => part));
  return {
    element,
    /** @param {Api.UnitCounts} units @param {string} label */
    update(units, label) {
      const ended = units.done + units.failed + units.held;
      for (const { state, part } of parts) {
        const share = units.total ? (units[state] / units.total) * 100 : 0;
        part.style.width = `${share}%`;
        part.hidden = !share;
      }
      element.setAttribute("aria-label", readable(label));
      element.setAttribute("aria-valuenow", String(units.total ? Math.floor((ended / units.total) * 100) : 0));
      element.setAttribute("aria-valuetext", inWords(units));
    },
  };
}

/** @param {Api.UnitCounts} units */
export function inWords(units) {
  const words = [`${count(units.done)} of ${count(units.total)} done`];
  for (const state of /** @type {const} */ (["failed", "held"])) if (units[state]) words.push(`${count(units[state])} ${state}`);
  return words.join(", ");
}

/** How much has ended: `3 of 12`, and of many a share: `34 % of 10,000`. @param {Api.UnitCounts} units */
export function shortly(units) {
  const ended = units.done + units.failed + units.held;
  return `${units.total < 100 ? count(ended) : percent(ended, units.total)} of ${count(units.total)}`;
}

/** @param {Pick<Api.Job, "state">} job */
export const isOver = (job) => ["done", "failed", "cancelled"].includes(job.state);

/** @typedef {[label: string, words: string, hint?: string]} Figure */

/**
 * Fills a list of figures: `[label, words, hint]` each, the hint if there is one.
 * @param {Element} list
 * @param {Figure[]} rows
 */
export function showFigures(list, rows) {
  renew(list, rows, ([label]) => label, ([label]) => {
    const value = h("dd", { class: "number" });
    return {
      element: h("div", null, h("dt", null, label), value),
      update(/** @type {Figure} */ [, words, hint]) {
        setText(value, words);
        if (hint) value.title = hint;
      },
    };
  });
}

/**
 * A page without anything yet: what it is for, and what to do next.
 * @param {string} title
 * @param {...Child} children
 */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("h2", null, title), ...children);
}
