// Steps over time as a line: a balance, or the units of a job that wait. Words beside it say the same.

import { h, setText, svg } from "./dom.js";
import { count, exactTime, moment, plural, span } from "./format.js";
import { credits, inCredits } from "./money.js";

const WIDTH = 600;
const HEIGHT = 140;
/** Space above and below, so that the line is not cut at its ends. */
const EDGE = 4;

/** @typedef {{ at: import("./format.js").Moment, value: number }} Point a value, and since when */

let plots = 0;

/** `{element, draw(points, words)}`: the last point ends the line. */
function stepPlot() {
  const id = `plot-${(plots += 1)}`;
  const title = svg("title", { id });
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  // Stretched to any width; words stand outside, where they stay readable.
  const drawing = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-labelledby": id, focusable: "false" });
  drawing.append(title, area, line);
  const [most, from, to] = ["most", "from", "to"].map(() => h("span", { class: "number" }));
  const element = h("figure", { class: "steps", hidden: true },
    h("div", { class: "axis soft small", "aria-hidden": "true" }, most), drawing,
    h("figcaption", { class: "axis soft small" }, from, to));
  return {
    element,
    /** @param {Point[]} points @param {{ title: string, most: string }} words */
    draw(points, words) {
      const [first, last] = [points[0], points.at(-1)];
      if (!first || !last) return;
      const { path } = steps(points);
      line.setAttribute("d", path);
      area.setAttribute("d", `${path}V${HEIGHT}H0Z`);
      setText(title, words.title);
      setText(most, words.most);
      setText(from, exactTime(first.at));
      setText(to, exactTime(last.at));
    },
  };
}

/** `{element, draw(lines)}`: `lines` are those of a statement, oldest first, one at least. The last balance lasts until now. */
export function balancePlot() {
  const { element, draw } = stepPlot();
  return {
    element,
    draw(/** @type {Api.StatementLine[]} */ lines) {
      const [first, newest] = [lines[0], lines.at(-1)];
      if (!first || !newest) return;
      // The bank's clock may be ahead of this one.
      const until = Math.max(Date.now(), moment(newest.at)?.getTime() ?? 0);
      const points = lines.map(({ at, balance }) => ({ at, value: balance }));
      const top = highest(points);
      draw([...points, { at: until, value: newest.balance }], {
        title: `Balance from ${exactTime(first.at)} to ${exactTime(until)}: from ${credits(first.balance)} to ${inCredits(newest.balance)}, ${credits(top)} at most.`,
        most: `${inCredits(top)} at most`,
      });
    },
  };
}

/** `{element, draw(queue, isOver)}`: the units of a job that wait; a job that is not over waits until now. */
export function queuePlot() {
  const { element, draw } = stepPlot();
  return {
    element,
    /** @param {Api.QueueStep[]} queue @param {boolean} isOver */
    draw(queue, isOver) {
      const points = queue.map(({ at, waiting }) => ({ at, value: waiting }));
      const [first, newest] = [points[0], points.at(-1)];
      if (!first || !newest) return;
      const until = isOver ? newest.at : Math.max(Date.now(), moment(newest.at)?.getTime() ?? 0);
      const top = highest(points);
      draw([...points, { at: until, value: newest.value }], {
        title: `Units that waited from ${exactTime(first.at)} to ${exactTime(until)}: ${count(top)} at most, ${count(newest.value)} at the end.`,
        most: `${plural(top, "unit")} waited at most`,
      });
    },
  };
}

/** @param {Point[]} points */
const highest = (points) => Math.max(...points.map(({ value }) => value));

/**
 * Waits of the units that found a node, as far as the steps tell: “half waited less than 3 s, the longest 20 s”.
 * @param {Api.QueueStep[]} queue
 */
export function waits(queue) {
  const begin = moment(queue[0]?.at ?? null)?.getTime() ?? 0;
  const found = queue.slice(1).map(({ at, waiting }, i) => ({
    after: ((moment(at)?.getTime() ?? begin) - begin) / 1000,
    units: Math.max(0, (queue[i]?.waiting ?? 0) - waiting),
  })).filter(({ units }) => units > 0);
  const all = found.reduce((sum, { units }) => sum + units, 0);
  if (!all) return "";
  let left = all / 2;
  const half = found.find(({ units }) => (left -= units) <= 0);
  return `half waited less than ${span(half?.after ?? 0)}, the longest ${span(found.at(-1)?.after ?? 0)}`;
}

/**
 * The path through the values, each of which lasts until the next.
 * @param {Point[]} points
 */
export function steps(points) {
  const times = points.map(({ at }) => moment(at)?.getTime() ?? 0);
  const [begin, end] = [Math.min(...times), Math.max(...times)];
  const top = highest(points);
  // Where all is of one moment, points are told apart by their order.
  /** @param {number} i */
  const x = (i) => (end > begin ? (times[i] - begin) / (end - begin) : i / Math.max(1, points.length - 1)) * WIDTH;
  /** @param {number} value */
  const y = (value) => HEIGHT - EDGE - (top ? value / top : 0) * (HEIGHT - 2 * EDGE);
  /** @param {number} n */
  const round = (n) => Math.round(n * 10) / 10;
  const path = points.map(({ value }, i) => (i ? `H${round(x(i))}V${round(y(value))}` : `M${round(x(0))} ${round(y(value))}`)).join("");
  return { path, top };
}
