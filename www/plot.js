// A balance over time as a line of steps. The statement beside it says the same in a table.

import { h, setText, svg } from "./dom.js";
import { exactTime, moment } from "./format.js";
import { credits, inCredits } from "./money.js";

const WIDTH = 600;
const HEIGHT = 140;
/** Space above and below, so that the line is not cut at its ends. */
const EDGE = 4;

/** @typedef {{ at: import("./format.js").Moment, balance: number }} Point a balance, and since when */

/** `{element, draw(lines)}`: `lines` are those of a statement, oldest first, one at least. The last balance lasts until now. */
export function balancePlot() {
  const title = svg("title", { id: "plot-title" });
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  // Stretched to any width; words stand outside, where they stay readable.
  const drawing = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-labelledby": "plot-title", focusable: "false" });
  drawing.append(title, area, line);
  const [most, from, to] = ["most", "from", "to"].map(() => h("span", { class: "number" }));
  const element = h("figure", { class: "balance", hidden: true },
    h("div", { class: "axis soft small", "aria-hidden": "true" }, most), drawing,
    h("figcaption", { class: "axis soft small" }, from, to));

  return {
    element,
    draw(/** @type {Api.StatementLine[]} */ lines) {
      const [first, newest] = [lines[0], lines.at(-1)];
      if (!first || !newest) return;
      // The bank's clock may be ahead of this one.
      const last = { ...newest, at: Math.max(Date.now(), moment(newest.at)?.getTime() ?? 0) };
      const { path, top } = steps([...lines, last]);
      line.setAttribute("d", path);
      area.setAttribute("d", `${path}V${HEIGHT}H0Z`);
      setText(title, `Balance from ${exactTime(first.at)} to ${exactTime(last.at)}: from ${credits(first.balance)} to ${inCredits(last.balance)}, ${credits(top)} at most.`);
      setText(most, `${inCredits(top)} at most`);
      setText(from, exactTime(first.at));
      setText(to, exactTime(last.at));
    },
  };
}

/**
 * The path through the balances, each of which lasts until the next, and the highest of them.
 * @param {Point[]} lines
 */
export function steps(lines) {
  const times = lines.map(({ at }) => moment(at)?.getTime() ?? 0);
  const [begin, end] = [Math.min(...times), Math.max(...times)];
  const top = Math.max(...lines.map(({ balance }) => balance));
  // Where all is of one moment, lines are told apart by their order.
  /** @param {number} i */
  const x = (i) => (end > begin ? (times[i] - begin) / (end - begin) : i / Math.max(1, lines.length - 1)) * WIDTH;
  /** @param {number} balance */
  const y = (balance) => HEIGHT - EDGE - (top ? balance / top : 0) * (HEIGHT - 2 * EDGE);
  /** @param {number} n */
  const round = (n) => Math.round(n * 10) / 10;
  const path = lines.map(({ balance }, i) => (i ? `H${round(x(i))}V${round(y(balance))}` : `M${round(x(0))} ${round(y(balance))}`)).join("");
  return { path, top };
}
