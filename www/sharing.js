// "When and how much": the donor's settings, as the form shows them and this browser keeps them.
//
// The node decides what they mean (`trust::policy`), on a server and here. This page only asks it
// what would not count, says that, and keeps the rest. Names are those of a server's `policy.toml`.

import { faultsOf } from "./checker.js";
import { Computer } from "./computer.js";
import { h, replace, setHidden, setText } from "./dom.js";
import { capital, plural } from "./format.js";
import { errorText } from "./text.js";

/** @import { Fault, Policy } from "./messages.js" */

const KEPT = "manyhands-policy";
const DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const SHARES = [["", "All of its time"], ["75", "Three quarters"], ["50", "Half"], ["25", "A quarter"], ["10", "A tenth"]];

/** Labels of settings on this page; the node's words have their names. @type {Record<string, string>} */
const LABELS = {
  share_cycles: "Compute for others", run_on_batteries: "Also on battery", run_if_user_active: "Only while nobody uses this computer",
  start_hour: "From", end_hour: "To", days: "Other hours on some days", battery_charge_min_pct: "Down to a charge of",
};

/**
 * The node's words about a setting, without its name, or with the one that it has on this page.
 * @param {string} words
 */
export function plainly(words) {
  return words
    .replace(/ \([a-z]+(_[a-z]+)+( = [^)]*)?\)/g, "")
    .replace(/you say ([a-z_]+) = true/g, (all, key) => (LABELS[key] ? `you switch on “${LABELS[key]}”` : all));
}

/**
 * @typedef {{ get(): unknown, set(value: unknown): void }} Value
 * @typedef {Value & { key: string, element: HTMLElement, fault: HTMLElement, inputs: Input[] }} Field
 * @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Input
 * @typedef {{ min: string, max: string, step?: string, factor?: number, placeholder: string }} Bounds
 */

/**
 * A field: `get()` gives its setting, or undefined for the default; `set(value)` shows one.
 * @param {string} key
 * @param {string} label
 * @param {Input} input
 * @param {string | null} hint
 * @param {Value} value
 * @returns {Field}
 */
function field(key, label, input, hint, { get, set }) {
  const fault = h("p", { class: "fault", id: `fault-${key}`, role: "alert", hidden: true });
  input.id ||= `set-${key}`;
  const hintLine = hint && h("p", { class: "hint", id: `hint-${key}` }, hint);
  input.setAttribute("aria-describedby", [hint && `hint-${key}`, `fault-${key}`].filter(Boolean).join(" "));
  const name = h("label", { for: input.id }, label);
  const element = input.type === "checkbox"
    ? h("div", { class: "field" }, h("div", { class: "check" }, input, name), hintLine, fault)
    : h("div", { class: "field" }, name, input, hintLine, fault);
  return { key, element, fault, inputs: [input], get, set };
}

/**
 * A box that is ticked, or not, by default.
 * @param {string} key
 * @param {string} label
 * @param {string | null} hint
 * @param {boolean} usual
 * @param {boolean} [ticked]
 */
function check(key, label, hint, usual, ticked = true) {
  const input = h("input", { type: "checkbox" });
  // Ticked may mean that the setting is false.
  /** @param {boolean} value */
  const means = (value) => (ticked ? value : !value);
  return field(key, label, input, hint, {
    get: () => (means(input.checked) === usual ? undefined : means(input.checked)),
    set: (value) => (input.checked = means(typeof value === "boolean" ? value : usual)),
  });
}

/** @param {string} key @param {string} label @param {string} hint @param {Bounds} bounds */
function number(key, label, hint, { factor = 1, ...about }) {
  const input = h("input", { type: "number", inputmode: "numeric", step: "any", ...about });
  return field(key, label, input, hint, {
    // The node refuses what is no number.
    get: () => (input.validity.badInput ? "no number" : input.value === "" ? undefined : Number(input.value) * factor),
    set: (value) => (input.value = typeof value === "number" ? String(value / factor) : ""),
  });
}

/** @param {string} key @param {string} label */
function time(key, label) {
  const input = h("input", { type: "time", step: "60" });
  /** @param {number} minutes */
  const words = (minutes) => [Math.floor(minutes / 60) % 24, minutes % 60].map((part) => String(part).padStart(2, "0")).join(":");
  return field(key, label, input, null, {
    get() {
      if (input.validity.badInput) return "no time";
      const [hours = 0, minutes = 0] = input.value.split(":").map(Number);
      return input.value ? hours + minutes / 60 : undefined;
    },
    set: (value) => (input.value = typeof value === "number" ? words(Math.round(value * 60)) : ""),
  });
}

function share() {
  const input = h("select", null, SHARES.map(([value, words]) => h("option", { value }, words)));
  return field("cpu_usage_limit", "How much of each core", input, "With less, cores rest in between, and the machine stays cooler.", {
    get: () => (input.value === "" ? undefined : Number(input.value)),
    set: (value) => offer(input, typeof value === "number" && value !== 100 ? String(value) : "", (it) => `${it} % of its time`),
  });
}

/**
 * Chooses a value that may not be among those that are offered.
 * @param {HTMLSelectElement} select
 * @param {string} value
 * @param {(value: string) => string} words
 */
function offer(select, value, words) {
  if (![...select.options].some((option) => option.value === value)) select.append(h("option", { value }, words(value)));
  select.value = value;
}

/** @returns {Field} */
function days() {
  const selects = DAYS.map((day) => h("select", { id: `set-${day}`, "aria-describedby": "fault-days" },
    [["", "as above"], ["all", "all day"], ["none", "not at all"]].map(([value, words]) => h("option", { value }, words))));
  const fault = h("p", { class: "fault", id: "fault-days", role: "alert", hidden: true });
  const element = h("details", null, h("summary", null, LABELS.days),
    h("div", { class: "days" }, DAYS.map((day, i) => [h("label", { for: `set-${day}` }, capital(day)), selects[i]])), fault);
  return {
    key: "days", element, fault, inputs: selects,
    get() {
      const set = DAYS.flatMap((day, i) => (selects[i].value ? [[day, selects[i].value]] : []));
      return set.length ? Object.fromEntries(set) : undefined;
    },
    set(value) {
      const set = /** @type {Record<string, unknown>} */ (value && typeof value === "object" ? value : {});
      selects.forEach((select, i) => {
        const hours = set[DAYS[i]];
        offer(select, typeof hours === "string" ? hours : "", (it) => it);
      });
      if (Object.keys(set).length) element.open = true;
    },
  };
}

function refused() {
  const input = h("textarea", { rows: "2", spellcheck: "false", autocapitalize: "off" });
  return field("refused_peers", "Take no work from", input, "Ids of gateways, 64 letters and digits each, one a line.", {
    get() {
      const ids = input.value.split(/[\s,;]+/).filter(Boolean);
      return ids.length ? ids : undefined;
    },
    set: (value) => (input.value = Array.isArray(value) ? value.join("\n") : ""),
  });
}

/** Fires "change" when other settings hold; `policy` are those that do. */
export class Sharing extends EventTarget {
  /** @type {Policy} */
  policy = {};
  /** @type {Field[]} */
  #fields;
  #title = h("summary");
  #said = h("p", { class: "hint", role: "status" });
  #fault = h("p", { class: "fault", role: "alert", hidden: true });
  #serial = 0;
  /** Names of what was kept and does not count: gone with the next change. @type {Set<string>} */
  #wrong = new Set();
  #computer;

  /** @param {HTMLElement} place a `details` that it fills @param {Computer} computer */
  constructor(place, computer) {
    super();
    this.#computer = computer;
    const cycles = check("share_cycles", LABELS.share_cycles, "Without it this tab stays connected and runs nothing.", true);
    const from = time("start_hour", LABELS.start_hour);
    const to = time("end_hour", LABELS.end_hour);
    const week = days();
    /** @type {false | Field[]} */
    const battery = Computer.seesBattery && [
      check("run_on_batteries", LABELS.run_on_batteries, null, false),
      number("battery_charge_min_pct", "Down to a charge of (percent)", "90 if left empty. Below it, work is handed on.", { min: "0", max: "100", placeholder: "90" }),
    ];
    /** @type {false | Field[]} */
    const input = Computer.seesInput && [
      check("run_if_user_active", LABELS.run_if_user_active, "The browser asks whether this page may know that.", true, false),
      number("idle_time_to_run", "Nobody uses it after (minutes)", "Without a key or a mouse; 3 if left empty.", { min: "1", max: "10000", placeholder: "3" }),
    ];
    const limits = [
      share(),
      number("max_task_memory_mb", "Memory of a task, at most (MiB)", "Most tasks ask for 256; who asks for more goes elsewhere.", { min: "1", max: "512", placeholder: "512" }),
      number("max_task_seconds", "Longest time limit of a task (minutes)", "Most tasks may take 60, though few need it; with less here, those go elsewhere.", { min: "1", max: "100000", factor: 60, placeholder: "no limit" }),
    ];
    const prices = [
      number("marginal_cost", "What the work costs you (µcr)", "For 10⁹ fuel, about a tenth of a second of one core, in millionths of a credit; 1 if left empty. Free slots are for sale from this on.", { min: "1", max: "1000000000", step: "1", placeholder: "1" }),
      number("min_price", "Least price (µcr)", "0 if left empty: what nobody pays for runs here too. Above 0, nothing that pays less does.", { min: "0", max: "1000000000", step: "1", placeholder: "0" }),
    ];
    const peers = refused();
    const direct = check("direct_connections", "Let other nodes connect to this tab directly", "They learn this computer’s address, as a web server does. Without it, they connect by way of the gateway, which cannot read what they say.", true);
    this.#fields = [cycles, from, to, week, battery, input, limits, prices, peers, direct].flat().filter((one) => one !== false);
    /** @param {false | Field[]} fields */
    const element = (fields) => fields && fields.map((one) => one.element);
    replace(place, this.#title,
      h("div", { class: "sharing" },
        this.#fault,
        h("fieldset", null, h("legend", null, "When"),
          h("div", { class: "pair" }, from.element, to.element),
          h("p", { class: "hint" }, "By this computer’s clock, over midnight too. Both empty: all day."),
          week.element, element(battery), element(input)),
        h("fieldset", null, h("legend", null, "How much"), element(limits)),
        h("fieldset", null, h("legend", null, "For how much"), element(prices)),
        h("fieldset", null, h("legend", null, "For whom"), cycles.element, direct.element, peers.element),
        h("div", { class: "row" },
          h("button", { type: "button", class: "link-button", onclick: () => this.#take({}, true) }, "Back to the defaults"), this.#said)));
    for (const one of this.#fields) {
      for (const input of one.inputs) input.addEventListener("change", () => this.#changed(one));
    }
    // A change in another tab counts here too.
    addEventListener("storage", ({ key }) => (key === KEPT || key === null) && this.#read());
    this.#read();
  }

  /** Those that this browser kept. */
  async #read() {
    /** @type {Policy} */
    let kept = {};
    let readable = false;
    this.#show([], "");
    try {
      kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
      readable = kept !== null && typeof kept === "object" && !Array.isArray(kept);
    } catch {
      // No JSON, or no storage.
    }
    if (!readable) {
      kept = {};
      this.#tell(this.#fault, "The settings that this browser kept cannot be read, so the defaults hold. The next change replaces them.");
    }
    this.#hold(kept);
    await this.#computer.watchInput(Computer.seesInput && kept.run_if_user_active === false, false);
    if (!Object.keys(kept).length) return;
    try {
      this.blame(await faultsOf(kept));
    } catch {
      // The node reads them as strictly, and says so when it starts.
    }
  }

  /** Shows which of the settings that hold do not count. @param {Fault[]} faults */
  blame(faults) {
    this.#wrong = new Set(faults.map(({ key }) => key));
    this.#show(faults, "This does not count, and the default holds: ");
  }

  /** @param {Policy} policy */
  #hold(policy) {
    this.policy = policy;
    for (const one of this.#fields) one.set(policy[one.key]);
    this.#count();
    this.dispatchEvent(new Event("change"));
  }

  #count() {
    const n = Object.keys(this.policy).length;
    setText(this.#title, n ? `When and how much (${plural(n, "setting")} changed)` : "When and how much");
  }

  /** @param {Field} one */
  async #changed(one) {
    if (one.key === "run_if_user_active") {
      const allowed = await this.#computer.watchInput(one.inputs[0] instanceof HTMLInputElement && one.inputs[0].checked, true);
      if (!allowed) {
        one.set(undefined);
        return this.#tell(one.fault, "The browser does not let this page know whether somebody uses the computer, so it cannot wait for that.");
      }
    }
    const shown = new Set(this.#fields.map(({ key }) => key));
    const others = Object.entries(this.policy).filter(([key]) => !shown.has(key) && !this.#wrong.has(key));
    const set = this.#fields.map(({ key, get }) => [key, get()]).filter(([, value]) => value !== undefined);
    await this.#take(Object.fromEntries([...others, ...set]), false);
  }

  /**
   * These hold from now on, unless the node says that they cannot be meant.
   * @param {Policy} policy
   * @param {boolean} anew whether the form has to show them
   */
  async #take(policy, anew) {
    const turn = (this.#serial += 1);
    if (anew) this.#computer.watchInput(false);
    setText(this.#said, "");
    /** @type {Fault[]} */
    let faults;
    try {
      faults = Object.keys(policy).length ? await faultsOf(policy) : [];
    } catch (error) {
      return this.#tell(this.#fault, `This could not be checked (${errorText(error)}), so what was set before still holds.`);
    }
    // Something else was changed meanwhile.
    if (turn !== this.#serial) return;
    this.#show(faults, "");
    if (faults.length) return setText(this.#said, "Not changed: what was set before still holds.");
    let kept = true;
    try {
      localStorage.setItem(KEPT, JSON.stringify(policy));
    } catch {
      kept = false;
    }
    if (anew) this.#hold(policy);
    else {
      this.policy = policy;
      this.#count();
      this.dispatchEvent(new Event("change"));
    }
    setText(this.#said, kept ? "Kept in this browser." : "Holds until this page is closed: this browser keeps nothing.");
  }

  /**
   * Shows the fault of each field; a field without one is well.
   * @param {Fault[]} faults
   * @param {string} before words that go before each
   */
  #show(faults, before) {
    this.#tell(this.#fault, "");
    for (const one of this.#fields) {
      const its = faults.filter(({ key }) => key === one.key);
      this.#tell(one.fault, its.length ? before + its.map(({ message }) => message).join("; ") : "");
      for (const input of one.inputs) {
        if (its.length) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
      if (its.length && one.element instanceof HTMLDetailsElement) one.element.open = true;
    }
    const shown = new Set(this.#fields.map(({ key }) => key));
    const others = faults.filter(({ key }) => !shown.has(key));
    if (others.length) this.#tell(this.#fault, before + others.map(({ key, message }) => `${key}: ${message}`).join("; "));
    if (faults.length && this.#title.parentElement instanceof HTMLDetailsElement) this.#title.parentElement.open = true;
  }

  /** @param {HTMLElement} line @param {string} words */
  #tell(line, words) {
    setText(line, words);
    setHidden(line, !words);
  }
}
