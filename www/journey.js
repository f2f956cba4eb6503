// A unit's journey: which nodes brought it where it stands, what is kept of it, and two hands on
// it: move it, let it stand still.

import * as api from "./api.js";
import { h, replace, setHidden, setText } from "./dom.js";
import { count, plural, shortNode } from "./format.js";
import { errorText, readable } from "./text.js";

/**
 * Part of the unit that one node ran; `now`: it has the unit, and no checkpoint of it is known.
 * @typedef {Omit<Api.JourneySpan, "platform"> & { platform: Api.Platform | undefined, now?: boolean }} Span
 */

/**
 * @param {string} job
 * @param {number} index
 * @param {Map<string, string>} names node ids to names
 * @param {() => void} nudge asks for the units again
 */
export function journeyPart(job, index, names, nudge) {
  const strip = h("div", { class: "journey-strip", role: "img" });
  const stops = h("ol", { class: "journey-stops" });
  const words = h("p", { class: "soft small" });
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const where = h("select", { "aria-label": `Where unit ${index} should go` });
  const move = h("button", { type: "button", class: "button slim" }, "Move it");
  const pause = h("button", { type: "button", class: "button slim" }, "Pause");
  const hands = h("div", { class: "inline" }, where, move, pause);
  const element = h("div", { class: "journey" }, h("p", { class: "label" }, "Journey"), strip, stops, words, hands, fault);
  /** @type {Api.Unit | null} */
  let unit = null;
  /** @type {Map<string, Api.Platform>} */
  let platforms = new Map();

  /** @param {HTMLButtonElement} button @param {string} busy @param {() => Promise<Api.Unit>} action */
  async function act(button, busy, action) {
    const label = button.textContent;
    button.disabled = true;
    setText(button, busy);
    setHidden(fault, true);
    try {
      show(await action());
    } catch (error) {
      setText(fault, errorText(error));
      setHidden(fault, false);
      setText(button, label);
    }
    button.disabled = false;
    nudge();
  }
  move.addEventListener("click", () => act(move, "Moving…", () => api.migrate(job, index, where.value || null)));
  pause.addEventListener("click", () =>
    act(pause, unit?.paused ? "Going on…" : "Pausing…", () => api.pause(job, index, !unit?.paused)));

  /** @param {Api.Unit} next */
  function show(next) {
    unit = next;
    const spans = spansOf(next, platforms);
    const total = spans.at(-1)?.to || 1;
    replace(strip, spans.map((span) => {
      const part = h("span", { "data-platform": span.platform });
      part.style.flexGrow = String(Math.max(1, ((span.to - span.from) / total) * 1000));
      return part;
    }));
    strip.setAttribute("aria-label", readable(spans.map((span) => `${doneBy(span)} on ${nameOf(span.runner, names)}`).join(", then ") || "not begun"));
    replace(stops, spans.map((span) =>
      h("li", { "data-platform": span.platform, title: span.runner },
        h("span", { class: "name" }, nameOf(span.runner, names)),
        h("span", { class: "soft small" }, `${span.platform ? PLATFORMS[span.platform] : "node"}, ${doneBy(span)}`))));
    setText(words, sentence(next));
    setHidden(strip, !spans.length);
    setHidden(hands, next.state !== "placed");
    setText(move, "Move it");
    setText(pause, next.paused ? "Go on" : "Pause");
  }

  /** The nodes that it could go to. @param {Api.Node[]} nodes */
  function offer(nodes) {
    platforms = new Map(nodes.map((node) => [node.id, node.platform]));
    const chosen = where.value;
    const others = nodes.filter((node) => node.slots > 0 && node.id !== unit?.runner);
    replace(where, h("option", { value: "" }, "to any node"), others.map((node) =>
      h("option", { value: node.id }, `to ${node.name || node.short}${node.platform === "browser" ? " (tab)" : ""}`)));
    where.value = others.some((node) => node.id === chosen) ? chosen : "";
  }
  return { element, show, offer };
}

const PLATFORMS = { native: "native", browser: "browser tab" };

/**
 * The nodes that are known to have run it, and last the one that has it now.
 * @param {Api.Unit} unit
 * @param {Map<string, Api.Platform>} platforms
 * @returns {Span[]}
 */
function spansOf(unit, platforms) {
  const spans = unit.journey ?? [];
  if (unit.state !== "placed" || !unit.runner || spans.at(-1)?.runner === unit.runner) return spans;
  const from = spans.at(-1)?.to ?? 0;
  return [...spans, { runner: unit.runner, platform: platforms.get(unit.runner), from, to: from, now: true }];
}

/** @param {Span} span */
function doneBy(span) {
  return span.now ? "here now, no checkpoint yet" : fuel(span.to - span.from);
}

/** @param {string} id @param {Map<string, string>} names */
function nameOf(id, names) {
  return names.get(id) || shortNode(id);
}

/** Fuel in the words of a person: `12 M fuel`. @param {number} units */
export function fuel(units) {
  /** @type {[step: number, letter: string][]} */
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [step, letter] of steps) {
    if (units >= step) return `${units / step < 9.95 ? (units / step).toFixed(1) : Math.round(units / step)} ${letter} fuel`;
  }
  return `${count(units)} fuel`;
}

const OVER = new Set(["done", "failed", "cancelled"]);

/** @param {Api.Unit} unit */
function sentence(unit) {
  const kept = unit.keepers?.length ? `kept by ${plural(unit.keepers.length, "node")}` : null;
  const newest = unit.checkpoint_fuel === null || unit.checkpoint_fuel === undefined ? null
    : [`the newest after ${fuel(unit.checkpoint_fuel)}`, kept].filter(Boolean).join(", ");
  return [
    unit.journey?.length ? null : "One node has had it all the time.",
    unit.checkpoints ? `${plural(unit.checkpoints, "checkpoint")}${newest ? `, ${newest}` : ""}.` : OVER.has(unit.state) ? "No checkpoint was made." : "No checkpoint yet.",
    unit.lost_fuel ? `${fuel(unit.lost_fuel)} was lost with nodes and done again.` : null,
    unit.journey_is_cut ? "There were more stops than are shown." : null,
  ].filter(Boolean).join(" ");
}
