// The part of the form for jobs that buy their places in the market.

import { h, setHidden } from "./dom.js";
import { entry } from "./form.js";
import { inCredits, microOf } from "./money.js";

/** `{element, values(), wrong(), words()}`; a job that buys nothing has no values here. */
export function buying() {
  const buy = h("input", { id: "buy", type: "checkbox", "aria-describedby": "buy-hint" });
  /** @param {string} id @param {string} label @param {string} hint */
  const price = (id, label, hint) => entry({ id, label, unit: "credits", inputmode: "decimal", hint, read: ({ value }) => microOf(value) });
  const unit = price("buy-unit", "A unit costs at most", "A unit that cannot be had for it waits, and says so.");
  const job = price("buy-job", "The job costs at most", "Empty: as much as its units.");
  const fuel = entry({
    id: "buy-fuel", label: "Fuel of a unit, at most", unit: "thousand million", inputmode: "decimal", hint: "About one instruction each; a unit that needs more fails. What it does not use is not paid for.",
    read({ value }) {
      const n = Math.round(Number(value) * 1e9);
      return value.trim() && n >= 1 && Number.isSafeInteger(n) ? n : new Error("Say how much fuel a unit may use: a number above 0, such as 2.");
    },
  });
  const speed = entry({
    id: "buy-speed", label: "Speed of a place, at least", unit: "thousand million a second", inputmode: "decimal", hint: "Fuel a second. Empty: any; all places that are fast enough compete.",
    read({ value }) {
      const n = Math.round(Number(value) * 1e9);
      return n >= 1 && Number.isSafeInteger(n) ? n : new Error("Say how much fuel a second a place has to do: a number above 0, such as 0.5; or nothing.");
    },
  });
  const fields = h("div", { class: "limits", hidden: true }, unit.element, job.element, fuel.element, speed.element);
  const element = h("div", { class: "buying" },
    h("label", { class: "check" }, buy, "Buy places of who sells them cheapest"),
    h("p", { class: "hint", id: "buy-hint" }, "Paid from the account of this node. Otherwise the job runs where somebody gives a place for nothing."), fields);
  buy.addEventListener("change", () => setHidden(fields, !buy.checked));

  /** @typedef {typeof unit} Entry */
  /** @param {string} key @param {Entry} field @returns {[string, Entry][]} */
  const said = (key, field) => (field.input.value.trim() ? [[key, field]] : []);
  /** @returns {[string, Entry][]} */
  const asked = () => [["max_price", unit], ...said("max_price_job", job), ["fuel_limit", fuel], ...said("min_speed", speed)];
  return {
    element,
    /** @returns {Partial<Api.JobRequest>} */
    values: () => (buy.checked ? { find: "cheapest", ...Object.fromEntries(asked().map(([key, field]) => [key, field.read()])) } : {}),
    /** @returns {[words: string, at: HTMLElement] | null} */
    wrong() {
      if (!buy.checked) return null;
      for (const [, field] of asked()) {
        const value = field.read();
        if (value instanceof Error) return [`${field.label}: ${value.message}`, field.input];
      }
      return null;
    },
    words() {
      const value = unit.read();
      return !buy.checked ? "given for nothing" : value instanceof Error ? "bought" : `${inCredits(value)} a unit at most`;
    },
  };
}
