// Sellers, goods and prices of all markets that there are: while this page asks, the gateway looks
// into those of others every few seconds.

import * as api from "./api.js";
import { h, renew, replace, setHidden, setText } from "./dom.js";
import { count, plural, shortNode, span } from "./format.js";
import { joining } from "./join.js";
import { empty } from "./progress.js";

/** @import { Row } from "./dom.js" */
/** @import { View } from "./live.js" */

/** @type {Record<string, string>} */
const KINDS = { cycles: "Computing", checkpoints: "Space for checkpoints", files: "Space for files" };

/** @type {Record<string, string>} */
const SCHEMES = {
  processor: "Each range of capacity has a market of its own, spread over the nodes; a second ring leads from one to the next.",
  single: "Each range of capacity has its place on the ring of nodes, and the node there keeps its market.",
};
/** @type {Record<string, string>} */
const RULES = {
  reverse_vickrey: "The cheapest sells, at the price of the next cheapest; without a next, at what the buyer offers at most. So it pays to ask for what it really costs.",
  max_min: "The cheapest sells, at its own price and a micro-credit more; the market’s keeper gets more, the lower the highest price that it names.",
};

/** @returns {View} */
export function marketView() {
  const summary = h("p", { class: "soft", role: "status" });
  const goods = h("div", { class: "goods" });
  const looked = h("p", { class: "soft" });
  const none = empty("Nothing is for sale that this node knows of",
    h("p", null, "Nobody may be selling: a node sells idle slots and space at the price of its policy. A swarm that has just begun needs some seconds until its markets are open."),
    h("p", null, "To sell, start a node with slots and say in its ", h("a", { href: "#/policy" }, "policy"), " what it costs:"), joining());
  const closed = empty("There are no markets in this swarm",
    h("p", null, "Its nodes give their time for nothing, and jobs need no credit."),
    h("p", { class: "row" }, h("a", { class: "button primary", href: "#/submit" }, "Submit a program")));
  const mine = offersTable("What this node sells", false);
  const idle = h("p", { class: "soft" }, "Nothing now. It sells idle slots and space for files: what is busy, or what its policy does not share, is not for sale. ",
    h("a", { href: "#/policy" }, "See its policy"));
  const selling = h("section", { "aria-labelledby": "selling" }, h("h2", { id: "selling" }, "What this node sells"), idle, mine.element);
  const rules = h("dl", { class: "rules" });
  const how = h("section", { "aria-labelledby": "how" }, h("h2", { id: "how" }, "How it works here"), h("div", { class: "card pad" }, rules));
  const element = h("div", { class: "page" },
    h("div", { class: "head" }, h("div", null, h("h1", null, "Market"),
      h("p", { class: "soft" }, "What can be bought in this swarm. Costs are in micro-credits (µcr), millionths of a credit."), looked), summary),
    none, closed, goods, selling, how);
  for (const part of [none, closed, selling, how]) part.hidden = true;

  return {
    title: "Market",
    element,
    stream: "/events",
    onEvent: (name) => name !== "market",
    async load(signal) {
      const { scheme = null, rule, bank, commodities, looks, selling: own } = await api.market(signal);
      const open = scheme !== null;
      const sellers = commodities.reduce((sum, { sellers: n }) => sum + n, 0);
      setText(looked, open ? looksWords(looks) : "");
      setText(summary, open ? `${plural(commodities.length, "market")} with ${plural(sellers, "seller")}` : "");
      setHidden(closed, open);
      setHidden(none, !open || commodities.length > 0);
      setHidden(selling, !open);
      setHidden(how, !open);
      renew(goods, commodities, ({ kind, least }) => `${kind} ${least}`, commodityPart);
      setHidden(idle, own.length > 0);
      mine.show(own);
      replaceIfNew(rules, [
        ["Markets", named(SCHEMES, scheme)],
        ["Price", named(RULES, rule)],
        ["Bank", bank ? `${shortNode(bank)} keeps the books.` : "None is known yet; the first node that this node joins and that knows it tells."],
      ]);
    },
  };
}

/**
 * The words for a name of the API, or the name where there are none.
 * @param {Record<string, string>} words
 * @param {string | null | undefined} name
 */
const named = (words, name) => (name ? words[name] ?? name : "");

/** Whether what is shown is all there is, and how old. @param {Api.Looked[]} looks */
export function looksWords(looks) {
  /** @param {Api.Looked[]} those */
  const kinds = (those) => those.map(({ kind }) => named(KINDS, kind).toLowerCase()).join(", ");
  const [never, partly] = [looks.filter(({ age_s = null }) => age_s === null), looks.filter(({ age_s = null, whole }) => age_s !== null && !whole)];
  if (never.length) return `The gateway is looking around now. Not seen yet: ${kinds(never)}.`;
  if (partly.length) return `Not all markets answered: some may be missing of ${kinds(partly)}. The gateway looks again in a few seconds.`;
  return looks.length ? `All markets there are, seen ${seconds(Math.max(...looks.map(({ age_s }) => age_s ?? 0)))}.` : "";
}

/** @param {number | null | undefined} s */
const seconds = (s) => ((s ?? 0) < 5 ? "just now" : `${span(s)} ago`);

/** @param {HTMLElement} list @param {[title: string, text: string][]} rows */
function replaceIfNew(list, rows) {
  const words = JSON.stringify(rows);
  if (list.dataset.shown === words) return;
  list.dataset.shown = words;
  replace(list, rows.map(([title, text]) => h("div", null, h("dt", null, title), h("dd", null, text))));
}

/** @param {Api.Commodity} commodity @returns {Row<Api.Commodity>} */
function commodityPart({ kind, least, most }) {
  const id = `goods-${kind}-${least}`;
  const whose = h("p", { class: "soft" });
  const offers = offersTable(`Cheapest offers: ${KINDS[kind] ?? kind}, ${rangeWords(kind, least, most)}`, true);
  const more = h("p", { class: "soft small" });
  return {
    element: h("section", { "aria-labelledby": id },
      h("div", null, h("h2", { id }, `${KINDS[kind] ?? kind}, ${rangeWords(kind, least, most)}`), whose), offers.element, more),
    update({ mine, sellers, units, cheapest = null, dearest, last, owner, age_s, offers: shown }) {
      const costs = cheapest === null ? "none of them now" : cheapest === dearest ? `at ${count(cheapest)} µcr` : `from ${count(cheapest)} to ${count(dearest)} µcr`;
      const what = kind === "cycles" ? ` with ${plural(units, "slot")}` : "";
      const paid = last ? `Last sold at ${count(last.price)} µcr, ${seconds(last.ago_s)}.` : "No sale was seen lately.";
      const source = mine ? "This gateway keeps this market." : owner ? `${shortNode(owner)} keeps this market and said so ${seconds(age_s)}.` : "A copy, whose keeper was not asked yet.";
      setText(whose, `${plural(sellers, "seller")}${what}, ${costs}. ${paid} ${source}`);
      offers.show(shown, least);
      const left = sellers - shown.length;
      setText(more, left > 0 ? `${count(left)} dearer are not shown.` : "");
      setHidden(more, left <= 0);
    },
  };
}

/** @param {string} caption @param {boolean} named whether sellers are named, else what is sold */
function offersTable(caption, named) {
  const body = h("tbody");
  const table = h("table", { class: "rows offers" },
    h("caption", { class: "sr-only" }, caption),
    h("thead", null, h("tr", null, [named ? "Seller" : "What", "Capacity", "Units", "For", "Cost"].map((title, i) => h("th", { scope: "col", class: i ? "right" : null }, title)))),
    body);
  const element = h("div", { class: "card" }, table);
  return {
    element,
    show(/** @type {Api.Offer[]} */ offers, /** @type {number} */ least = 0) {
      setHidden(element, offers.length === 0);
      // Two offers of one seller may be alike in all that is shown.
      const keyed = offers.map((offer, i) => ({ ...offer, least: least || offer.capacity, key: `${i} ${offer.seller} ${offer.kind}` }));
      renew(body, keyed, ({ key }) => key, () => offerRow(named));
    },
  };
}

/** @param {boolean} named @returns {Row<Api.Offer & { least: number }>} */
function offerRow(named) {
  const name = h("span", { class: "name" });
  const tags = h("span", { class: "soft small" });
  const [capacity, units, time, cost] = ["Capacity", "Units", "For", "Cost"].map((label) => h("td", { class: "right number", "data-label": label }));
  return {
    element: h("tr", null, h("th", { scope: "row" }, name, tags), capacity, units, time, cost),
    update(offer) {
      const short = shortNode(offer.seller);
      setText(name, named ? offer.name || short : KINDS[offer.kind] ?? offer.kind);
      name.title = named ? offer.seller : "";
      setText(tags, [named && offer.name ? short : null, offer.engine === "browser" ? "browser tab" : offer.engine, offer.memory_mib ? `${count(offer.memory_mib)} MiB of memory` : null].filter(Boolean).join(" · "));
      setText(capacity, capacityWords(offer.kind, offer.capacity, offer.least));
      setText(units, count(offer.units));
      setText(time, span(offer.minutes * 60));
      setText(cost, `${count(offer.cost)} µcr for 10⁹ ${offer.kind === "cycles" ? "fuel" : "byte-seconds"}`);
    },
  };
}

/** @typedef {[from: number, by: number, unit: string]} Step */

/** Units of a kind, the largest first: from how much on, divided by what, called what. @type {Step[]} */
const SPEEDS = [[5e8, 1e9, "thousand million fuel/s"], [0, 1e6, "million fuel/s"]];
/** @type {Step[]} */
const SIZES = [[2 ** 40, 2 ** 40, "TiB"], [2 ** 30, 2 ** 30, "GiB"], [0, 2 ** 20, "MiB"]];

/** @param {string} kind @param {number} n @returns {Step} */
const stepOf = (kind, n) => (kind === "cycles" ? SPEEDS : SIZES).find(([from]) => n >= from) ?? [0, 1, ""];
/** @param {number} n */
const figure = (n) => (n < 99.5 ? String(Math.round(n * 10) / 10) : count(n));

/**
 * `0.7 thousand million fuel/s`, `724 MiB`; in the unit that suits `like`, such as its range's.
 * @param {string} kind
 * @param {number} n
 * @param {number} [like]
 */
export function capacityWords(kind, n, like = n) {
  const [, by, unit] = stepOf(kind, like);
  return `${figure(n / by)} ${unit}`;
}

/**
 * A range in words: `0.5 to 0.8 thousand million fuel/s`; both ends in the unit of the lower.
 * @param {string} kind
 * @param {number} least
 * @param {number} most
 */
export function rangeWords(kind, least, most) {
  const [, by, unit] = stepOf(kind, least);
  return `${figure(least / by)} to ${figure(most / by)} ${unit}`;
}
