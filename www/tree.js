// The tree that finds idle nodes, as far as this node knows it: the branches beside it and
// below it, each with what is free, and the guests that it hosts. No node knows all of it.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { count, plural } from "./format.js";

/** @import { Row } from "./dom.js" */

/**
 * A line of the drawing: a node of the tree or a guest, with what is known of its slots.
 * @typedef {Api.TreeNode & Partial<Api.Free> & { depth: number, kind: keyof typeof KINDS }} Line
 */

export function treePart() {
  const words = h("p", { class: "soft" });
  const drawing = h("ul", { class: "tree" });
  const element = h("section", { "aria-labelledby": "tree", hidden: true },
    h("h2", { id: "tree" }, "Tree"),
    h("div", { class: "card pad" }, words, drawing));

  return {
    element,
    async load(/** @type {Api.Node[]} */ nodes, /** @type {AbortSignal} */ signal) {
      const tree = await api.tree(signal);
      const guests = nodes.filter((node) => node.guest && !node.me);
      setHidden(element, !tree.joined && guests.length === 0);
      setText(words, says(tree));
      renew(drawing, rows(tree, guests), (row) => row.id, treeRow);
    },
  };
}

/** @param {Api.Tree} tree */
function says(tree) {
  if (!tree.joined) return "Nobody who can be dialled has joined yet. Guests are connected to this node alone.";
  const whole = tree.network_slots ? `${plural(tree.network_slots, "slot")} in the tree. ` : "";
  return `${whole}Requests for slots go along these lines. What is free is told in steps of powers of two, so it is a range.`;
}

/**
 * From the top down: what is above, the group of the root or its own, what is below, guests.
 * @param {Api.Tree} tree
 * @param {Api.Node[]} guests
 * @returns {Line[]}
 */
function rows(tree, guests) {
  /** @param {number} depth @param {Line["kind"]} kind @returns {(node: Api.TreeNode) => Line} */
  const row = (depth, kind) => (node) => ({ ...node, depth, kind });
  const above = [...tree.above].reverse().map((node, depth) => row(depth, "above")(node));
  const level = above.length;
  /** @type {Line} */
  const me = { ...tree.me, ...tree.branch, depth: level, kind: "me" };
  /** @param {Api.Node} node */
  const slots = (node) => ({ ...node, free_at_least: node.free, free_at_most: node.free });
  return [
    ...above,
    me,
    // Guests are counted as branches below; as what they are they come next.
    ...tree.children.filter((node) => !guests.some((guest) => guest.id === node.id)).map(row(level + 1, "below")),
    ...guests.map((node) => row(level + 1, "guest")(slots(node))),
    ...tree.siblings.map(row(level, "beside")),
    ...tree.peers.map(row(level, "beside")),
  ];
}

const KINDS = { above: "above this node", me: "this node", below: "below", beside: "beside", guest: "guest" };

/** @returns {Row<Line>} */
function treeRow() {
  const name = h("span", { class: "name" });
  const kind = h("span", { class: "soft small" });
  const sure = h("span", { class: "sure" });
  const maybe = h("span", { class: "maybe" });
  const meter = h("span", { class: "free-bar", "aria-hidden": "true" }, sure, maybe);
  const words = h("span", { class: "number small" });
  const element = h("li", null, h("span", { class: "who" }, name, kind), meter, words);
  return {
    element,
    update(node) {
      const [low, high] = [Math.min(node.free_at_least ?? 0, node.slots ?? 0), Math.min(node.free_at_most ?? 0, node.slots ?? 0)];
      element.style.setProperty("--depth", String(node.depth));
      element.dataset.kind = node.kind;
      setText(name, node.name || node.short);
      name.title = node.id;
      setText(kind, KINDS[node.kind]);
      setHidden(meter, !node.slots);
      sure.style.width = `${(100 * low) / (node.slots || 1)}%`;
      maybe.style.width = `${(100 * (high - low)) / (node.slots || 1)}%`;
      setText(words, node.slots ? `${low === high ? count(low) : `${count(low)} to ${count(high)}`} of ${count(node.slots)} free` : node.slots === 0 ? "gives none" : "");
    },
  };
}
