// Builds and renews elements. Text goes in as text nodes only, so nothing that a node, a job
// or a program is called can become markup; and without the characters that mislead a reader.

import { readable } from "./text.js";

/**
 * @typedef {string | number | boolean | null | undefined | ((event: Event) => unknown)} Property
 * @typedef {Node | string | number | false | null | undefined | readonly Child[]} Child
 */

/**
 * An item's state in `renew`: its element, and how that is brought up to date.
 * @template Item
 * @typedef {{ element: Element, update(item: Item): void }} Row
 */

/**
 * An element: `h("p", {class: "soft", onclick: f}, "text", other)`. Properties that start with
 * "on" are listeners, `null`, `undefined` and `false` are left out, children are nodes or text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, Property> | null} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") Object.assign(element, { [key]: value });
    else element.setAttribute(key, value === true ? "" : SPOKEN.includes(key) ? readable(value) : String(value));
  }
  add(element, children);
  return element;
}

/** Attributes that a person reads or hears. */
const SPOKEN = ["title", "aria-label", "aria-valuetext", "placeholder", "alt"];

/** @param {Element} element @param {readonly Child[]} children */
function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else if (typeof child === "object") add(element, child);
    else element.append(readable(child));
  }
}

/**
 * Like `h`, for SVG and without children.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} [attributes]
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, String(value));
  return element;
}

/**
 * Sets text only when it changed: live regions and selections are left in peace.
 * @param {Element} element
 * @param {unknown} text
 */
export function setText(element, text) {
  const words = readable(text ?? "");
  if (element.textContent !== words) element.textContent = words;
}

/** @param {HTMLElement} element @param {unknown} hidden */
export function setHidden(element, hidden) {
  if (element.hidden !== Boolean(hidden)) element.hidden = Boolean(hidden);
}

/** @param {Element} element @param {...Child} children */
export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/**
 * Makes the children of `parent` those of `items`, in order, and keeps the element of an item
 * that stays: focus, open details and scrolled output survive a renewal.
 * Gives the rows by their keys.
 * @template Item
 * @template {string | number} Key
 * @template {Row<Item>} Made
 * @param {Element} parent
 * @param {readonly Item[]} items
 * @param {(item: Item) => Key} keyOf
 * @param {(item: Item) => Made} create
 * @returns {Map<Key, Made>}
 */
export function renew(parent, items, keyOf, create) {
  const known = /** @type {Map<Key, Made>} */ (ROWS.get(parent) ?? new Map());
  ROWS.set(parent, known);
  const seen = new Set();
  // In a table the items are bodies, after its head.
  let place = parent instanceof HTMLTableElement && parent.tHead ? parent.tHead.nextSibling : parent.firstChild;
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
  return known;
}

/** The rows of elements whose children are renewed. @type {WeakMap<Element, Map<string | number, unknown>>} */
const ROWS = new WeakMap();

/**
 * The element of the page's own HTML with this id, which is of this kind.
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} id
 * @param {new () => Kind} [kind]
 * @returns {Kind}
 */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof (kind ?? HTMLElement))) throw new Error(`the page has no #${id} of its kind; its HTML and its scripts differ`);
  return /** @type {Kind} */ (element);
}

/** Copies to the clipboard where the page may, and says on the button how it went. @param {string} text */
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
