// A job's units: one page of them at a time, by number or by state, each with its result.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { count, plural, shortNode } from "./format.js";
import { UNIT_STATES, badge, isOver } from "./progress.js";
import { journeyPart } from "./journey.js";
import { resultDetail } from "./results.js";
import { readable } from "./text.js";

/**
 * @typedef {{ units: Api.Unit[], next: number | null, stopped?: boolean }} Found units of a page, and where the next one begins
 */

const PAGE = 50;
/** Units looked through at a time for a state that is rare. */
const STRIDE = 1000;
/** Between two searches of the same; a job that runs is loaded more often than that. */
const PATIENCE = 5000;
/** Most reads of `STRIDE` units in one go; then the reader decides. Our choice: half a second on a loopback. */
const READS = 20;

/** @param {string} id @param {() => void} nudge asks for a load of the whole job */
export function unitsPart(id, nudge) {
  const filter = h("select", { id: "unit-state" });
  const jump = h("input", { id: "unit-number", type: "number", min: "0", step: "1", inputmode: "numeric" });
  const jumpForm = h("form", { class: "inline" }, h("label", { for: "unit-number", class: "small" }, "Go to unit"), jump, h("button", { class: "button slim" }, "Go"));
  const table = h("table", { class: "rows units" },
    h("caption", { class: "sr-only" }, "Units of this job"),
    h("thead", null, h("tr", null, ["Unit", "State", "Why", "Runner", "Placed", ""].map((title) =>
      h("th", { scope: "col", class: title === "Placed" ? "right" : null }, title || h("span", { class: "sr-only" }, "Result"))))));
  const nothing = h("p", { class: "soft pad" });
  const where = h("span", { class: "soft small number", role: "status" });
  const [first, previous, next] = ["First", "Previous", "Next"].map((label) => h("button", { type: "button", class: "button slim" }, label));
  const tools = h("div", { class: "tools" }, h("div", { class: "inline" }, h("label", { for: "unit-state", class: "small" }, "State"), filter), jumpForm);
  const element = h("section", { "aria-labelledby": "units" },
    h("div", { class: "head" }, h("h2", { id: "units" }, "Units"), tools),
    h("div", { class: "card" }, table, nothing, h("div", { class: "pager" }, where, first, previous, next)));

  let from = 0;
  /** @type {number | null} */
  let following = null;
  /** @type {number[]} */
  let earlier = [];
  let searched = { asked: "", at: 0 };
  /** @type {Map<string, string>} */
  const names = new Map();

  /** @param {Api.Job} job @param {AbortSignal} signal */
  async function load(job, signal) {
    const asked = `${filter.value}/${from}`;
    fillFilter(filter, job.units);
    for (const { node, name } of job.by_node ?? []) if (name) names.set(node, name);
    if (filter.value && !isOver(job) && searched.asked === asked && performance.now() - searched.at < PATIENCE) return;
    /** @type {Found} */
    const found = filter.value ? await search(job, chosenState(), from, signal) : await page(from, signal);
    if (asked !== `${filter.value}/${from}`) return;
    searched = { asked, at: performance.now() };
    following = found.next;
    const rows = renew(table, found.units, (unit) => unit.index, (unit) => unitRow(id, unit, names, nudge));
    await offerNodes([...rows.values()], signal);
    setHidden(table, found.units.length === 0);
    setText(nothing, found.units.length ? "" : none(filter.value, found.stopped ?? false, from));
    setHidden(nothing, found.units.length > 0);
    setText(where, place(found, job, filter.value));
    setHidden(first, from === 0);
    setHidden(previous, from === 0 || (filter.value && earlier.length === 0));
    setHidden(next, following === null);
    setText(next, found.stopped ? "Look further" : "Next");
    setHidden(element, job.units.total === 0);
    setHidden(tools, job.units.total === 1);
    setHidden(jumpForm, job.units.total <= PAGE || Boolean(filter.value));
    jump.max = String(Math.max(0, job.units.total - 1));
  }

  /** @param {number} start @param {AbortSignal} signal @returns {Promise<Found>} */
  async function page(start, signal) {
    const { units, next: after } = await api.units(id, start, PAGE, signal);
    return { units, next: after ?? null };
  }

  /**
   * Rows that are open offer the nodes that their unit could go to.
   * @param {ReturnType<typeof unitRow>[]} rows
   * @param {AbortSignal} signal
   */
  async function offerNodes(rows, signal) {
    const open = rows.filter((row) => row.isOpen());
    if (!open.length) return;
    const nodes = await api.nodes(signal);
    for (const node of nodes) if (node.name) names.set(node.id, node.name);
    open.forEach((row) => row.offer(nodes));
  }

  /**
   * The API lists by number; a state is looked for here, until a page is full.
   * @param {Api.Job} job
   * @param {State} state
   * @param {number} start
   * @param {AbortSignal} signal
   * @returns {Promise<Found>}
   */
  async function search(job, state, start, signal) {
    /** @type {Api.Unit[]} */
    const units = [];
    if (job.units[state] === 0) return { units, next: null };
    let at = start;
    for (let reads = 0; reads < READS; reads += 1) {
      const answer = await api.units(id, at, STRIDE, signal);
      for (const unit of answer.units) {
        if (unit.state !== state) continue;
        if (units.length === PAGE) return { units, next: unit.index };
        units.push(unit);
      }
      if (answer.next === null || answer.next === undefined) return { units, next: null };
      at = answer.next;
    }
    return { units, next: at, stopped: true };
  }

  const chosenState = () => /** @type {State} */ (filter.value);
  /** @param {number} to @param {number[]} past */
  const turn = (to, past) => {
    from = to;
    earlier = past;
    nudge();
  };
  first.addEventListener("click", () => turn(0, []));
  next.addEventListener("click", () => turn(following ?? from, [...earlier, from]));
  previous.addEventListener("click", () => turn(earlier.at(-1) ?? Math.max(0, from - PAGE), earlier.slice(0, -1)));
  filter.addEventListener("change", () => turn(0, []));
  jumpForm.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = Math.min(Number(jump.max), Math.max(0, Math.floor(Number(jump.value) || 0)));
    turn(wanted, []);
  });
  fillFilter(filter, null);
  setHidden(nothing, true);
  return { element, load };
}

/** @typedef {typeof STATES[number]} State */

/** States that units can be looked for by. */
const STATES = /** @type {const} */ (["waiting", "placed", "done", "failed", "held"]);

/** @param {HTMLSelectElement} filter @param {Api.UnitCounts | null} units */
function fillFilter(filter, units) {
  if (!filter.options.length) for (const state of ["", ...STATES]) filter.append(h("option", { value: state, title: UNIT_STATES[state] ?? null }));
  [...filter.options].forEach((option) => {
    const n = units?.[option.value ? /** @type {State} */ (option.value) : "total"];
    const words = option.value || "all";
    setText(option, n === undefined ? words : `${words} (${count(n)})`);
  });
}

/** @param {string} state @param {boolean} stopped @param {number} from */
function none(state, stopped, from) {
  if (stopped) return `No unit is “${state}” between here and unit ${count(from)}; look further.`;
  return state ? `No unit is ${state} now: ${UNIT_STATES[state]}.` : "No unit here.";
}

/** @param {Found} found @param {Api.Job} job @param {string} state */
function place(found, job, state) {
  const [first, last] = [found.units[0], found.units.at(-1)];
  if (!first || !last) return "";
  const [low, high] = [first.index, last.index];
  const range = low === high ? `Unit ${count(low)}` : `Units ${count(low)} to ${count(high)}`;
  return state ? `${range}, those that are ${state}` : `${range} of ${plural(job.units.total, "unit")}`;
}

/** @param {string} id @param {Api.Unit} first @param {Map<string, string>} names @param {() => void} nudge */
function unitRow(id, first, names, nudge) {
  const number = h("th", { scope: "row", class: "number" });
  const state = badge(first.state);
  const reason = h("td", { class: "why", "data-label": "Why" });
  const runner = h("td", { class: "clip", "data-label": "Runner" });
  const attempts = h("td", { class: "right number", "data-label": "Placed" });
  const toggle = h("button", { type: "button", class: "link-button small", "aria-expanded": "false" }, "More");
  const cells = [number, h("td", { class: "state" }, state.element), reason, runner, attempts, h("td", { class: "right action" }, toggle)];
  // A body of its own: the row, and below it the result when it is open.
  const element = h("tbody", null, h("tr", null, cells));
  /** @type {HTMLElement | null} */
  let detail = null;
  /** @type {ReturnType<typeof journeyPart> | null} */
  let journey = null;
  let last = first;
  toggle.addEventListener("click", () => {
    const opened = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(opened));
    if (!opened) {
      detail?.remove();
      detail = null;
      journey = null;
      return;
    }
    journey = journeyPart(id, first.index, names, nudge);
    const result = h("div");
    detail = h("tr", { class: "detail" }, h("td", { colspan: "6" }, journey.element, result));
    element.append(detail);
    journey.show(last);
    journey.offer([]);
    nudge();
    if (hasEnded(last)) resultDetail(result, id, first.index);
  });
  return {
    element,
    isOpen: () => journey !== null,
    offer: (/** @type {Api.Node[]} */ nodes) => journey?.offer(nodes),
    update(/** @type {Api.Unit} */ unit) {
      last = unit;
      journey?.show(unit);
      setText(number, count(unit.index));
      state.update(unit.state);
      setText(reason, unit.reason || "");
      setText(runner, unit.runner ? names.get(unit.runner) || shortNode(unit.runner) : "none");
      runner.title = unit.runner ? readable(`${names.get(unit.runner) ?? ""} ${unit.runner}`.trim()) : "";
      setText(attempts, unit.attempts === 1 ? "once" : unit.attempts ? `${count(unit.attempts)} times` : "not yet");
      toggle.hidden = !hasEnded(unit) && unit.state !== "placed" && !unit.checkpoints;
      toggle.setAttribute("aria-label", hasEnded(unit) ? `Journey and result of unit ${unit.index}` : `Journey of unit ${unit.index}`);
    },
  };
}

/** @param {Api.Unit} unit */
const hasEnded = (unit) => ["done", "failed", "held"].includes(unit.state);
