// The policy of this node's own slots: when they work, how much, for whom; and why they do not work now.

import * as api from "./api.js";
import { h, replace, setHidden, setText } from "./dom.js";
import { capital, plural, size, span } from "./format.js";
import { empty } from "./progress.js";
import { errorText } from "./text.js";
import { DAYS, GROUPS, usualWords } from "./settings.js";

/** @import { View } from "./live.js" */
/** @import { DaysSetting, LinesSetting, NumberSetting, Setting, YesSetting } from "./settings.js" */

/**
 * How a setting is shown and read: `get()` gives its value, `undefined` for the default, or an Error in words.
 * @typedef {{ inputs: HTMLElement[], place: HTMLElement, get(): unknown, set(value: unknown): void }} Input
 * @typedef {ReturnType<typeof fieldOf>} Field
 */

/** @returns {View} */
export function policyView() {
  const headline = h("p", { class: "headline" });
  const reasons = h("ul", { class: "reasons" });
  const more = h("div", { class: "soft small" });
  const now = h("section", { class: "card pad now", "aria-labelledby": "now-title" },
    h("h2", { id: "now-title", class: "sr-only" }, "Now"), h("div", { role: "status" }, headline, reasons), more);
  const fields = GROUPS.flatMap(([, , settings]) => settings).map(fieldOf);
  const byKey = new Map(fields.map((field) => [field.key, field]));
  const save = h("button", { type: "submit", class: "button primary" }, "Save");
  const undo = h("button", { type: "button", class: "button" }, "Undo changes");
  const said = h("p", { class: "soft", role: "status" });
  const fault = h("p", { class: "fault", role: "alert" });
  const count = h("p", { class: "soft" });
  const form = h("form", { class: "policy", novalidate: true },
    GROUPS.map(([title, about, settings], i) => h("section", { class: "card pad", "aria-labelledby": `group-${i}` },
      h("div", null, h("h2", { id: `group-${i}` }, title), about && h("p", { class: "soft" }, about)),
      h("div", { class: "settings" }, settings.map(({ key }) => byKey.get(key)?.element)))),
    h("div", { class: "keep card pad" }, fault, h("div", { class: "row" }, save, undo, said)));
  const element = h("div", { class: "page" },
    h("div", { class: "head" }, h("div", null, h("h1", null, "Policy"),
      h("p", { class: "soft" }, "What this node’s own slots give. Other nodes have policies of their own: “manyhands policy” there, or “When and how much” on the donate page.")), count),
    now, form);

  /** @type {Api.View["set"]} */
  let saved = {};
  let dirty = false;
  let sending = false;

  /** Settings as the form has them, and the first field that cannot be read. */
  function collect() {
    /** @type {Api.View["set"]} */
    const set = {};
    for (const field of fields) {
      const value = field.get();
      if (value instanceof Error) return { wrong: field, why: value.message };
      if (value !== undefined) set[field.key] = value;
    }
    return { set };
  }

  /** @param {Api.View["set"]} set */
  function fill(set) {
    saved = set;
    dirty = false;
    for (const field of fields) field.set(set[field.key]);
    blame(null, "");
    mark();
  }

  function mark() {
    const n = Object.keys(saved).length;
    setText(count, n ? `${plural(n, "setting is", "settings are")} set, the others are default` : "Nothing is set, all is default");
    for (const field of fields) field.mark(Object.hasOwn(saved, field.key));
    save.disabled = sending || !dirty;
    undo.disabled = sending || !dirty;
  }

  /** @param {Field | null} field @param {string} words */
  function blame(field, words) {
    for (const one of fields) one.blame(one === field ? words : "");
    setText(fault, field ? `Not saved: see “${field.label}”.` : words);
    setHidden(fault, !words);
    field?.focus();
  }

  /** @param {Api.View} view */
  function showNow(view) {
    const { works, reasons: why, wait_s = null, space_bytes = null } = view.now;
    now.dataset.works = String(works);
    setText(headline, works ? "Working" : why.length ? "Not working now" : "Not working: this node was started without slots");
    replaceIfNew(reasons, works ? [[given(view.now)]] : why.length
      ? why.map(({ reason, until }) => [`${capital(reason)}.`, `Until ${until}.`])
      : [["With “--slots”, it would give its own processors too. What is set here holds then."]]);
    const lines = [
      view.trouble && `The policy file does not count as it is now, and the one before holds: ${view.trouble}`,
      !works && wait_s !== null && `It works again in ${span(wait_s)}, if nothing else stops it then.`,
      !works && wait_s === null && why.length > 1 && "It works again when none of these holds any more.",
      ...view.now.unknown.map((words) => `${capital(words)}.`),
      space_bytes !== null && `Space for others: ${size(space_bytes)}, as counted when the node started.`,
    ];
    replaceIfNew(more, lines.flatMap((line) => (line ? [[line]] : [])), "p");
  }

  form.addEventListener("input", () => {
    dirty = true;
    setText(said, "");
    mark();
  });
  undo.addEventListener("click", () => {
    fill(saved);
    setText(said, "As it was saved.");
    save.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    const { set, wrong, why } = collect();
    if (wrong) return blame(wrong, why);
    sending = true;
    setText(said, "Saving…");
    mark();
    try {
      const view = await api.setPolicy(set);
      sending = false;
      fill(view.set);
      showNow(view);
      setText(said, "Saved. It holds from now on.");
    } catch (error) {
      sending = false;
      setText(said, "");
      mark();
      blame((error instanceof api.ApiError && error.field && byKey.get(error.field)) || null, errorText(error));
    }
  });

  return {
    title: "Policy",
    element,
    stream: "/events",
    onEvent: (name) => name !== "nodes",
    missing: (error) => empty("No policy here", h("p", null, `${capital(error.detail || error.message)}.`)),
    async load(signal) {
      const view = await api.policy(signal);
      showNow(view);
      // Input that somebody is typing is not overwritten.
      if (!dirty && !sending && JSON.stringify(view.set) !== JSON.stringify(saved)) fill(view.set);
      else mark();
    },
  };
}

/** @param {Api.Now} now */
function given({ slots, slots_given, cpu_share, task_memory_bytes }) {
  const of = slots === slots_given ? plural(slots, "slot") : `${slots} of ${plural(slots_given ?? slots, "slot")}`;
  return `${of}, ${cpu_share} % of a processor and at most ${Math.floor(task_memory_bytes / 2 ** 20)} MiB for each task.`;
}

/**
 * Live regions are left in peace when nothing is new.
 * @param {HTMLElement} element
 * @param {string[][]} items
 * @param {"li" | "p"} [tag]
 */
function replaceIfNew(element, items, tag = "li") {
  const words = JSON.stringify(items);
  if (element.dataset.shown === words) return;
  element.dataset.shown = words;
  replace(element, items.map(([first, ...rest]) => h(tag, null, first, rest.map((line) => h("span", { class: "until" }, line)))));
}

/**
 * `{key, label, element, get(), set(value), mark(isSet), blame(words), focus()}`; an Error is no value.
 * @param {Setting} setting
 */
function fieldOf(setting) {
  const { key, label, unit, hint } = setting;
  const about = `hint-${key} fault-${key}`;
  const { inputs, place, get, set } = inputOf(setting, about);
  const fault = h("p", { class: "fault", id: `fault-${key}`, role: "alert" });
  const badge = h("span", { class: "set-badge", hidden: true }, "set");
  const title = [label, unit && h("span", { class: "soft" }, ` (${unit})`)];
  const head = h("div", { class: "setting-head" },
    inputs.length > 1 ? h("span", { class: "label", id: `label-${key}` }, title) : h("label", { for: inputs[0]?.id }, title),
    badge, h("code", { class: "soft small" }, key));
  const element = h("div", { class: `field setting ${setting.kind}`, ...(inputs.length > 1 && { role: "group", "aria-labelledby": `label-${key}` }) },
    head, place, h("p", { class: "hint", id: `hint-${key}` }, [hint, `Default: ${usualWords(setting)}.`].filter(Boolean).join(" ")), fault);
  return {
    key, label, element, get, set,
    mark: (/** @type {boolean} */ isSet) => setHidden(badge, !isSet),
    focus: () => inputs[0]?.focus(),
    blame(/** @type {string} */ words) {
      setText(fault, words);
      for (const input of inputs) {
        if (words) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
    },
  };
}

/** @param {Setting} setting @param {string} about ids of what describes it @returns {Input} */
function inputOf(setting, about) {
  switch (setting.kind) {
    case "yes": return INPUTS.yes(setting, about);
    case "number": return INPUTS.number(setting, about);
    case "lines": return INPUTS.lines(setting, about);
    case "days": return INPUTS.days(setting, about);
  }
}

const INPUTS = {
  /** @param {YesSetting} setting @param {string} about @returns {Input} */
  yes({ key, usual }, about) {
    const input = h("select", { id: `set-${key}`, "aria-describedby": about },
      [["", `default (${usual ? "yes" : "no"})`], ["true", "yes"], ["false", "no"]].map(([value, words]) => h("option", { value }, words)));
    return {
      inputs: [input], place: input,
      get: () => (input.value === "" ? undefined : input.value === "true"),
      set: (value) => (input.value = value === undefined ? "" : String(value)),
    };
  },
  /** @param {NumberSetting} setting @param {string} about @returns {Input} */
  number({ key, usual, none }, about) {
    const input = h("input", { id: `set-${key}`, type: "number", step: "any", inputmode: "decimal", placeholder: usual === null ? none : String(usual), "aria-describedby": about });
    return {
      inputs: [input], place: input,
      get: () => (input.validity.badInput ? new Error("This is no number.") : input.value === "" ? undefined : Number(input.value)),
      set: (value) => (input.value = value === undefined ? "" : String(value)),
    };
  },
  /** @param {LinesSetting} setting @param {string} about @returns {Input} */
  lines({ key }, about) {
    const input = h("textarea", { id: `set-${key}`, rows: "2", spellcheck: "false", autocapitalize: "off", "aria-describedby": about });
    return {
      inputs: [input], place: input,
      get() {
        const all = input.value.split(/[\s,;]+/).filter(Boolean);
        return all.length ? all : undefined;
      },
      set: (value) => (input.value = Array.isArray(value) ? value.join("\n") : ""),
    };
  },
  /** @param {DaysSetting} setting @param {string} about @returns {Input} */
  days({ key }, about) {
    const inputs = DAYS.map((day) => h("input", { id: `set-${key}-${day}`, type: "text", maxlength: "40", spellcheck: "false", autocapitalize: "off", placeholder: "as every day", "aria-describedby": about }));
    const place = h("div", { class: "week" }, DAYS.map((day, i) => h("div", null, h("label", { for: inputs[i]?.id }, capital(day)), inputs[i])));
    return {
      inputs, place,
      get() {
        const all = DAYS.flatMap((day, i) => (inputs[i].value.trim() ? [[day, inputs[i].value.trim()]] : []));
        return all.length ? Object.fromEntries(all) : undefined;
      },
      set(value) {
        const days = /** @type {DaysSetting["usual"] | undefined} */ (value);
        DAYS.forEach((day, i) => (inputs[i].value = days?.[day] ?? ""));
      },
    };
  },
};
