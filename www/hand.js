// A hand of slots, drawn as rays over a palm: one ray a core or slot, longer when it is given,
// lit when it computes. The words beside it say the same; it is hidden from screen readers.

import { svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 168;
const PALM = 44;
const INNER = 58;
const OUTER = 152;
/** More rays than this cannot be told apart; then each stands for several. Our choice. */
const MOST = 96;

/** `update({cores, given, busy, on})` redraws. */
export function hand() {
  const element = svg("svg", { class: "hand off", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", focusable: "false" });
  element.append(svg("path", { class: "palm", d: `M${WIDTH / 2 - PALM} ${HEIGHT - 4}a${PALM} ${PALM} 0 0 1 ${2 * PALM} 0z` }));
  const rays = svg("g");
  element.append(rays);
  /**
   * Each with its lengths: as one of those that are given, and idle.
   * @type {{ ray: SVGRectElement, full: number, idle: number }[]}
   */
  let drawn = [];

  /** @param {number} n */
  function draw(n) {
    drawn = [];
    rays.replaceChildren();
    const spread = Math.min(166, 38 * (n - 1));
    const step = n > 1 ? spread / (n - 1) : 0;
    const gap = n > 1 ? (step * Math.PI * INNER) / 180 : 60;
    const thick = Math.min(21, Math.max(0.8, gap * 0.68));
    for (let i = 0; i < n; i += 1) {
      const angle = -spread / 2 + i * step;
      // 180 degrees turn the ray up; then it fans out from left to right.
      const group = svg("g", { transform: `translate(${WIDTH / 2} ${HEIGHT - 4}) rotate(${180 + angle})` });
      const ray = svg("rect", { class: "ray", x: -thick / 2, y: INNER, width: thick, rx: thick / 2, height: thick });
      // Middle fingers are longer, and no two neighbours quite the same.
      const reach = 0.8 + 0.2 * Math.cos((angle * Math.PI) / 180) - (i % 2 ? 0.07 : 0);
      const full = (OUTER - INNER) * reach;
      drawn.push({ ray, full, idle: Math.max(thick, full * 0.34) });
      group.append(ray);
      rays.append(group);
    }
  }

  /** @param {{ cores: number, given: number, busy: number, on: boolean }} state */
  function update({ cores, given, busy, on }) {
    const scale = cores > MOST ? MOST / cores : 1;
    const n = Math.max(1, Math.round(cores * scale));
    if (n !== drawn.length) draw(n);
    const fingers = Math.max(given > 0 ? 1 : 0, Math.round(given * scale));
    const lit = Math.max(busy > 0 ? 1 : 0, Math.round(busy * scale));
    drawn.forEach(({ ray, full, idle }, i) => {
      ray.setAttribute("class", i < lit ? "ray given busy" : i < fingers ? "ray given" : "ray");
      ray.style.height = `${(i < fingers ? full : idle).toFixed(1)}px`;
    });
    element.classList.toggle("lit", busy > 0);
    element.classList.toggle("off", !on);
  }

  return { element, update };
}
