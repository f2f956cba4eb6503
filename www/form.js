// Small forms: a few labelled fields, one button, and what the gateway said beside them.

import { ApiError } from "./api.js";
import { h, setText } from "./dom.js";
import { errorText } from "./text.js";

/** @import { Child } from "./dom.js" */

/**
 * A part of a form: `read()` gives its value, or an Error in words for whoever filled it in.
 * @template Value
 * @typedef {{ label?: string, element: HTMLElement, input: HTMLElement, read(): Value | Error, blame(words: string): void }} Field
 */

/**
 * A labelled input. `read(input)` gives its value, or an Error in words for whoever typed it.
 * @template Value
 * @param {{
 *   id: string, label: string, unit?: string, hint?: string, list?: string, read: (input: HTMLInputElement) => Value | Error,
 *   type?: string, min?: string, max?: string, step?: string, value?: string, inputmode?: string, maxlength?: string,
 *   spellcheck?: string, autocapitalize?: string, class?: string,
 * }} about
 */
export function entry({ id, label, unit, hint, list, read, ...attributes }) {
  const said = [hint && `${id}-hint`, `${id}-fault`].filter(Boolean).join(" ");
  const input = h("input", { id, type: "text", list, "aria-describedby": said, ...attributes });
  const fault = h("p", { class: "fault", id: `${id}-fault`, role: "alert" });
  const check = attributes.type === "checkbox";
  const name = h("label", { for: id }, label, unit && h("span", { class: "soft" }, ` (${unit})`));
  const element = h("div", { class: "field" },
    check ? h("div", { class: "check" }, input, name) : [name, input],
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint), fault);
  return {
    label, element, input,
    read: () => read(input),
    blame(/** @type {string} */ words) {
      setText(fault, words);
      if (words) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/**
 * A form of `entries`: `send(values)` hands them in, by their `key`, and gives the words for when it
 * went well. A refusal of the gateway stands at the field that it names, else above the button.
 * @template {Record<string, unknown>} Values
 * @param {{
 *   label: string, entries: { [Key in keyof Values]: Field<Values[Key]> }, action: string, busy: string,
 *   send: (values: Values) => Promise<string>, more?: Child[],
 * }} about
 */
export function form({ label, entries, action, busy, send, more = [] }) {
  const button = h("button", { type: "submit", class: "button primary" }, action);
  const fault = h("p", { class: "fault", role: "alert" });
  const said = h("p", { class: "soft", role: "status" });
  const fields = /** @type {[keyof Values & string, Field<unknown>][]} */ (Object.entries(entries));
  const element = h("form", { class: "small-form", novalidate: true, autocomplete: "off", "aria-label": label },
    fields.map(([, field]) => field.element), more, fault, h("div", { class: "row" }, button, said));
  let sending = false;

  /** @param {string | null} key @param {string} words */
  function blame(key, words) {
    for (const [of, field] of fields) field.blame(of === key ? words : "");
    setText(fault, key === null ? words : "");
    if (key !== null) fields.find(([of]) => of === key)?.[1].input.focus();
  }

  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    setText(said, "");
    /** @type {Partial<Record<keyof Values, unknown>>} */
    const values = {};
    for (const [key, field] of fields) {
      const value = field.read();
      if (value instanceof Error) return blame(key, value.message);
      values[key] = value;
    }
    blame(null, "");
    sending = button.disabled = true;
    setText(said, busy);
    try {
      setText(said, await send(/** @type {Values} */ (values)));
    } catch (error) {
      setText(said, "");
      // At the field its name need not be said.
      if (error instanceof ApiError && error.field && Object.hasOwn(entries, error.field)) {
        blame(error.field, (error.detail || error.message).replace(/^`\w+`: /, ""));
      } else blame(null, errorText(error));
    }
    sending = button.disabled = false;
  });
  return element;
}

/**
 * Asks before what cannot be taken back; whether it was meant.
 * @param {{ title: string, words: string, no: string, yes: string }} about
 * @returns {Promise<boolean>}
 */
export function sure({ title, words, no, yes }) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "sure-title", "aria-describedby": "sure-words" },
      h("h2", { id: "sure-title" }, title),
      h("p", { id: "sure-words" }, words),
      h("form", { method: "dialog", class: "row" },
        h("button", { class: "button", value: "no", autofocus: true }, no),
        h("button", { class: "button danger", value: "yes" }, yes)));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
