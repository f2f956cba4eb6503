// Builds and renews elements. Text goes in as text nodes only, so nothing that a node, a job
// or a program is called can become markup; and without the characters that mislead a reader.

import { readable } from "./text.js";

/**
 * An element: `h("p", {class: "soft", onclick: f}, "text", other)`. Properties that start with
 * "on" are listeners, `null`, `undefined` and `false` are left out, children are nodes or text.
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") element[key] = value;
    else element.setAttribute(key, value === true ? "" : SPOKEN.includes(key) ? readable(value) : String(value));
  }
  add(element, children);
  return element;
}

/** Attributes that a person reads or hears. */
const SPOKEN = ["title", "aria-label", "aria-valuetext", "placeholder", "alt"];

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : readable(child));
  }
}

/** The same for SVG, without children. */
export function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, String(value));
  return element;
}

/** Sets text only when it changed: live regions and selections are left in peace. */
export function setText(element, text) {
  const words = readable(text ?? "");
  if (element.textContent !== words) element.textContent = words;
}

export function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/**
 * Makes the children of `parent` those of `items`, in order, and keeps the element of an item
 * that stays: focus, open details and scrolled output survive a renewal.
 * `create(item)` gives `{element, update(item)}`.
 */
export function renew(parent, items, keyOf, create) {
  const known = (parent.knownRows ??= new Map());
  const seen = new Set();
  // In a table the items are bodies, after its head.
  let place = parent.tHead ? parent.tHead.nextSibling : parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    if (seen.has(key)) continue;
    seen.add(key);
    let row = known.get(key);
    if (!row) known.set(key, (row = create(item)));
    row.update(item);
    if (row.element === place) place = place.nextSibling;
    else parent.insertBefore(row.element, place);
  }
  for (const [key, row] of known) {
    if (seen.has(key)) continue;
    row.element.remove();
    known.delete(key);
  }
}

/** Copies to the clipboard where the page may, and says on the button how it went. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "button slim" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without https the clipboard is closed to pages, except on loopback.
      button.textContent = "Select and copy by hand";
    }
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}
