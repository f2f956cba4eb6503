// The nodes of the swarm, as the gateway sees them.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { count, plural, size, span } from "./format.js";
import { joining } from "./join.js";
import { empty } from "./progress.js";
import { treePart } from "./tree.js";

/** @import { Row } from "./dom.js" */
/** @import { View } from "./live.js" */

/** Silence of a node at work that is worth a word: a lease ends after seven seconds of it. An idle node says nothing. */
const SILENT = 6;
/** Rows of one page: a table of thousands is for the command line. Our choice. */
const MOST = 500;

/** @returns {View} */
export function nodesView() {
  const summary = h("p", { class: "soft", role: "status" });
  const links = h("p", { class: "soft small" });
  const body = h("tbody");
  const table = h("table", { class: "rows nodes" },
    h("caption", { class: "sr-only" }, "Nodes of this swarm"),
    h("thead", null, h("tr", null,
      ["Node", "Slots", "Units held", "Units done", "CPU time", "Last heard"].map((title, i) =>
        h("th", { scope: "col", class: i > 1 ? "right" : null }, title)))),
    body);
  const more = h("p", { class: "soft pad" });
  const list = h("div", { class: "card" }, table, more);
  const none = empty("Only the gateway is here",
    h("p", null, "A gateway keeps jobs and computes only with the slots that it was given. Ask others to join, or open a tab on the donate page yourself."),
    joining());
  const tree = treePart();
  const element = h("div", { class: "page" },
    h("div", { class: "head" }, h("h1", null, "Nodes"), summary),
    links, list, none, tree.element);

  return {
    title: "Nodes",
    element,
    stream: "/events",
    onEvent: (name) => name !== "nodes",
    async load(signal) {
      const [nodes, network] = await Promise.all([api.nodes(signal), api.network(signal)]);
      nodes.sort(byRank);
      const slots = nodes.reduce((sum, node) => sum + node.slots, 0);
      const free = nodes.reduce((sum, node) => sum + node.free, 0);
      setText(summary, `${plural(nodes.length, "node")}, ${plural(slots, "slot")}, ${count(free)} of them free`);
      setText(links, linksOf(nodes, network));
      names = new Map(nodes.map((node) => [node.id, node.name || node.short]));
      setHidden(none, nodes.some((node) => !node.me));
      setHidden(list, nodes.length === 0);
      setText(more, nodes.length > MOST ? `${count(nodes.length - MOST)} more are not shown. “manyhands nodes” lists all.` : "");
      setHidden(more, nodes.length <= MOST);
      renew(body, nodes.slice(0, MOST), (node) => node.id, nodeRow);
      await tree.load(nodes, signal);
    },
  };
}

/** @param {Api.Node} a @param {Api.Node} b */
function byRank(a, b) {
  return Number(b.gateway) - Number(a.gateway) || b.slots - a.slots || a.id.localeCompare(b.id);
}

/** Names of nodes, by id. @type {Map<string, string>} */
let names = new Map();

/** Connections that are not the usual ones, in words. @type {Record<string, string>} */
const LINKS = { webrtc: "by a data channel", relay: "by way of a relay" };

/**
 * How the nodes are connected, how the gateway's attempts at data channels ended, and what it relays: counts alone.
 * @param {Api.Node[]} nodes @param {Api.Network} network
 */
function linksOf(nodes, { data_channels: channels, relaying }) {
  const others = nodes.filter((node) => !node.me);
  if (others.length === 0) return "";
  /** @param {string} carrier */
  const by = (carrier) => others.filter((node) => node.connection === carrier).length;
  const carriers = [[by("tcp"), "by TCP"], [by("websocket"), "by WebSocket"], [by("webrtc"), LINKS.webrtc], [by("relay"), LINKS.relay], [others.filter((node) => !node.connection).length, "known by name alone"]];
  const connected = carriers.filter(([n]) => n).map(([n, how]) => `${count(Number(n))} ${how}`).join(", ");
  const guests = others.filter((node) => !node.reachable).length;
  const words = [`Connected to this node: ${connected}.`];
  if (guests) words.push(`${plural(guests, "node")} cannot be dialled: tabs, and servers behind a router or a wall.`);
  const lost = channels ? channels.unreached + channels.unanswered + channels.refused + channels.failed : 0;
  if (channels && channels.opened + lost) {
    words.push(`Data channels with this node: ${count(channels.opened)} opened, ${count(channels.unreached)} found no way between the two, ${count(lost - channels.unreached)} failed otherwise${channels.relayed ? `, and ${plural(channels.relayed, "node")} connected by way of a relay instead` : ""}.`);
  }
  if (relaying?.bytes) words.push(`For others that cannot connect directly it passes on ${plural(relaying.circuits, "connection")} now, ${size(relaying.bytes)} since its start.`);
  return words.join(" ");
}

/** @returns {Row<Api.Node>} */
function nodeRow() {
  const name = h("span", { class: "name" });
  const tags = h("span", { class: "soft small" });
  const slots = slotMarks();
  const [held, done, cpu, heard] = [0, 0, 0, 0].map(() => h("td", { class: "right number" }));
  ["Units held", "Units done", "CPU time", "Last heard"].forEach((label, i) => ([held, done, cpu, heard][i].dataset.label = label));
  const element = h("tr", null, h("th", { scope: "row" }, name, tags), h("td", { "data-label": "Slots" }, slots.element), held, done, cpu, heard);
  return {
    element,
    update(node) {
      setText(name, node.name || node.short);
      name.title = node.id;
      setText(tags, [node.name ? node.short : null, node.gateway ? "gateway" : null, node.platform === "browser" ? "browser tab" : "native", node.guest && !node.gateway && node.platform !== "browser" ? "guest" : null, node.via ? `relayed by ${names.get(node.via) ?? "another node"}` : LINKS[node.connection ?? "tcp"] ?? null, node.me ? "answers this page" : null].filter(Boolean).join(" · "));
      slots.update(node.slots, node.slots - node.free);
      setText(held, count(node.held));
      setText(done, count(node.units_done));
      setText(cpu, span(node.cpu_s));
      setText(heard, node.me ? "itself" : node.silent_s < 2 ? "just now" : `${node.silent_s < 60 ? `${Math.round(node.silent_s)} s` : span(node.silent_s)} ago`);
      heard.classList.toggle("fault", !node.me && node.held > 0 && node.silent_s > SILENT);
    },
  };
}

/** One mark a slot, lit when it computes; beyond what fits, numbers only. */
function slotMarks() {
  const marks = h("span", { class: "marks", "aria-hidden": "true" });
  const words = h("span", { class: "number" });
  const element = h("span", { class: "slots" }, marks, words);
  return {
    element,
    update(/** @type {number} */ slots, /** @type {number} */ busy) {
      const shown = slots <= 16 ? slots : 0;
      while (marks.childElementCount > shown) marks.lastChild?.remove();
      while (marks.childElementCount < shown) marks.append(h("span"));
      [...marks.children].forEach((mark, i) => (mark.className = i < busy ? "busy" : ""));
      setText(words, slots ? `${count(busy)} of ${count(slots)} busy` : "gives none");
    },
  };
}
