// The whole at a glance: how many hands there are, and what they do.

import * as api from "./api.js";
import { h, renew, setHidden, setText } from "./dom.js";
import { count, plural, shortNode, span } from "./format.js";
import { hand } from "./hand.js";
import { jobRow, jobsTable } from "./jobs.js";
import { joining } from "./join.js";
import { empty, isOver } from "./progress.js";
import { token } from "./token.js";

/** @import { View } from "./live.js" */

/** Jobs shown here; the list has the rest. */
const JOBS = 6;

/** @returns {View} */
export function overview() {
  const drawing = hand();
  const headline = h("p", { class: "headline" });
  const gateway = h("p", { class: "soft small" });
  const figures = ["Nodes here now", "Slots at work", "Units they did for this node", "CPU time of these"].map((label) => {
    const value = h("dd", { class: "number" });
    return { value, element: h("div", null, h("dt", null, label), value) };
  });
  const { table, body } = jobsTable("Newest jobs");
  const list = h("div", { class: "card" }, table);
  const none = empty("No job yet",
    h("p", null, "Hand in a WebAssembly program, with its arguments and inputs, and watch it run on all of these hands."),
    h("p", { class: "row" }, h("a", { class: "button primary", href: "#/submit" }, "Submit a program")),
    h("p", { class: "soft" }, "Or on the command line:"),
    h("code", { class: "command" }, "manyhands run program.wasm < input > output"));
  const locked = h("p", { class: "note" }, "Jobs are for those who hold the gateway’s token. ", h("a", { href: "#/jobs" }, "Enter it"), " to see them.");
  const jobsPart = h("section", { "aria-labelledby": "newest" },
    h("div", { class: "head" }, h("h2", { id: "newest" }, "Newest jobs"), h("a", { href: "#/jobs" }, "All jobs")), list, none, locked);
  const more = h("section", { "aria-labelledby": "more-hands" }, h("h2", { id: "more-hands" }, "More hands"),
    h("p", { class: "soft" }, "Whoever opens the first address can give a tab’s time, and the command makes a server a node."), joining());
  const element = h("div", { class: "page" },
    h("h1", { class: "sr-only" }, "Overview"),
    h("section", { class: "stage", "aria-label": "The swarm" },
      h("div", { class: "sunrise" }, drawing.element),
      h("div", { class: "words" }, headline, gateway, h("dl", { class: "figures" }, figures.map((figure) => figure.element)))),
    jobsPart,
    more);
  for (const part of [list, none, locked]) part.hidden = true;
  let named = false;

  return {
    title: "Overview",
    element,
    stream: "/events",
    async load(signal) {
      const [nodes, jobs] = await Promise.all([api.nodes(signal), token() ? api.jobs(JOBS, null, signal) : null]);
      /** @param {"slots" | "free" | "units_done" | "cpu_s"} key */
      const sum = (key) => nodes.reduce((all, node) => all + node[key], 0);
      const [slots, free] = [sum("slots"), sum("free")];
      drawing.update({ cores: Math.max(slots, 5), given: slots, busy: slots - free, on: slots > 0 });
      setText(headline, says(nodes, slots, free, jobs?.jobs));
      const words = [count(nodes.length), `${count(slots - free)} of ${count(slots)}`, count(sum("units_done")), span(sum("cpu_s"))];
      figures.forEach(({ value }, i) => setText(value, words[i]));
      setHidden(locked, Boolean(jobs));
      setHidden(list, !jobs?.jobs.length);
      setHidden(none, !jobs || jobs.jobs.length > 0);
      if (jobs) renew(body, jobs.jobs.slice(0, JOBS), (job) => job.id, jobRow);
      if (!named) {
        const network = await api.network(signal);
        named = true;
        // Others join by a gateway.
        setHidden(more, !network.gateway);
        setText(gateway, [network.gateway ? "Gateway" : "Node", network.name, shortNode(network.node), `version ${network.version}`].filter(Boolean).join(" · "));
      }
    },
  };
}

/** @param {Api.Node[]} nodes @param {number} slots @param {number} free @param {Api.Job[]} [jobs] */
function says(nodes, slots, free, jobs) {
  const open = jobs?.filter((job) => !isOver(job)).length ?? 0;
  if (slots === 0) return "Nobody gives a slot yet";
  if (slots > free) return `${plural(slots - free, "slot")} at work`;
  return open ? "Work is waiting" : `${plural(nodes.filter((node) => node.slots > 0).length, "node")} ready for work`;
}
