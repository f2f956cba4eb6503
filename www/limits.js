// The part of the form that most people leave alone: bounds, retries, environment.

import { h } from "./dom.js";
import { environmentOf } from "./words.js";

const MIB = 1024 * 1024;
/**
 * Key of the API, label, unit, smallest, largest, whole numbers only, factor, hint.
 * @type {[key: "memory_limit" | "time_limit" | "output_limit" | "max_retries" | "priority", label: string, unit: string, least: number, most: number, whole: boolean, factor: number, hint: string][]}
 */
const FIELDS = [
  ["memory_limit", "Memory", "MiB", 1, 4096, true, MIB, "256 unless you say otherwise."],
  ["time_limit", "Time of a unit", "seconds", 0.1, 86_400 * 30, false, 1, "An hour unless you say otherwise."],
  ["output_limit", "Output of a unit", "MiB", 1, 1024, true, MIB, "64 unless you say otherwise; stdout, stderr and files together."],
  ["max_retries", "Retries", "", 0, 100, true, 1, "Units are deterministic: the same input usually fails the same way."],
  ["priority", "Priority", "", -1000, 1000, true, 1, "Higher goes first; 0 is usual."],
];

/** `{element, values(), wrong()}`; what is left empty is left to the gateway. */
export function limits() {
  const inputs = FIELDS.map(([key, , , least, most, whole]) =>
    h("input", { id: `limit-${key}`, type: "number", min: least, max: most, step: whole ? "1" : "any", "aria-describedby": `hint-${key}` }));
  const environment = h("textarea", { id: "environment", rows: "3", spellcheck: "false", placeholder: "NAME=value", "aria-describedby": "environment-hint" });
  const element = h("div", { class: "limits" },
    FIELDS.map(([key, label, unit, , , , , hint], i) => h("div", { class: "field" },
      h("label", { for: `limit-${key}` }, label, unit ? h("span", { class: "soft" }, ` (${unit})`) : null), inputs[i],
      h("p", { class: "hint", id: `hint-${key}` }, hint))),
    h("div", { class: "field whole" }, h("label", { for: "environment" }, "Environment"), environment,
      h("p", { class: "hint", id: "environment-hint" }, "One variable a line.")));

  return {
    element,
    /** @returns {Partial<Api.JobRequest>} */
    values() {
      /** @type {Partial<Api.JobRequest>} */
      const values = {};
      FIELDS.forEach(([key, , , , , , factor], i) => {
        if (inputs[i].value !== "") values[key] = Number(inputs[i].value) * factor;
      });
      const { values: variables } = environmentOf(environment.value);
      return variables && Object.keys(variables).length ? { ...values, environment: variables } : values;
    },
    /** @returns {[words: string, at: HTMLElement] | null} */
    wrong() {
      for (const [i, [, label, unit, least, most, whole]] of FIELDS.entries()) {
        const input = inputs[i];
        // A browser hides what is no number; its validity still tells.
        const n = Number(input.value);
        const bad = input.validity.badInput || (input.value !== "" && (n < least || n > most || (whole && !Number.isInteger(n))));
        if (bad) return [`${label} has to be ${whole ? "a whole number" : "a number"} from ${least} to ${most}${unit ? ` ${unit}` : ""}.`, input];
      }
      const { fault } = environmentOf(environment.value);
      return fault ? [`Environment: ${fault}`, environment] : null;
    },
  };
}
