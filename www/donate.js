// The donate page: shows a Session and passes on what the donor wants.

import { byId, copyButton, h, renew, replace, setHidden, setText } from "./dom.js";
import { capital, count, plural, shortNode, span } from "./format.js";
import { hand } from "./hand.js";
import { credits } from "./money.js";
import { Session } from "./session.js";
import { Computer } from "./computer.js";
import { Sharing, plainly } from "./sharing.js";
import { readable } from "./text.js";

/** @import { Child, Row } from "./dom.js" */
/** @import { Current, PolicyNow, Sales, Work } from "./messages.js" */

const [stateLine, detailLine, trouble] = [byId("state"), byId("detail"), byId("trouble")];
const [slots, invite, name] = [byId("slots", HTMLInputElement), byId("invite", HTMLInputElement), byId("name", HTMLInputElement)];
const [startButton, stopButton] = [byId("start", HTMLButtonElement), byId("stop", HTMLButtonElement)];
const [slotsWords, inviteField] = [byId("slots-words"), byId("invite-field")];

/** Rows of units shown at once; the rest is counted. Our choice: what fits a phone. */
const ROWS = 4;
/** Short units come and go many times a second; only a pause this long is called one. */
const PAUSE = 1500;

const cores = Math.max(1, navigator.hardwareConcurrency || 2);
const session = new Session();
const drawing = hand();
const computer = new Computer();
const sharing = new Sharing(byId("sharing"), computer);
const address = new URLSearchParams(location.search);
/** @type {Api.Network | null} */
let network = null;
let busyAt = -Infinity;
let pauseTimer = 0;

function setUp() {
  byId("hand").append(drawing.element);
  slots.max = String(cores);
  slots.value = String(Math.max(1, Math.floor(cores / 2)));
  slots.disabled = cores === 1;
  invite.value = address.get("invite") ?? "";
  const join = `manyhands up --join ${location.origin}`;
  setText(byId("join-command"), join);
  byId("join-command").after(copyButton(join));

  slots.addEventListener("input", () => {
    session.setSlots(Number(slots.value));
    show();
  });
  sharing.addEventListener("change", () => session.setPolicy(sharing.policy));
  computer.addEventListener("change", () => {
    session.setKnows(computer.knows);
    show();
  });
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  stopButton.addEventListener("click", () => {
    session.stop();
    startButton.focus();
  });
  session.addEventListener("change", show);
  session.addEventListener("policy", () => session.policy.faults.length && sharing.blame(session.policy.faults));
  addEventListener("pagehide", () => session.leave());
  // A countdown to a restart moves without messages.
  setInterval(() => session.phase === "restarting" && show(), 1000);

  const obstacle = missing() ?? otherGateway();
  if (obstacle) {
    replace(trouble, obstacle);
    trouble.hidden = false;
    startButton.disabled = true;
  }
  if (Computer.seesBattery) computer.watchBattery();
  show();
  meetGateway();
}

/** The features that this browser lacks, in words; `null` if it has all. @returns {Child} */
function missing() {
  if (typeof WebAssembly === "object" && typeof Worker === "function" && typeof WebSocket === "function") return null;
  return ["This browser has no WebAssembly or no Workers, so it cannot compute here. Any current Firefox, Chrome, Edge or Safari can."];
}

/**
 * `?gateway=` may only name the gateway that served this page: a link must not make somebody
 * else's page compute for a stranger, and a gateway answers its own pages only.
 * @returns {Child}
 */
function otherGateway() {
  const wanted = address.get("gateway");
  if (!wanted) return null;
  /** @type {URL} */
  let url;
  try {
    url = new URL(wanted);
  } catch {
    return [`The link to this page names a gateway as “${wanted}”, which is no web address. Ask for a new link, or open this page without “?gateway=”.`];
  }
  if (url.origin === location.origin) return null;
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return [`The link to this page names the gateway ${wanted}, which is not a web page's address. It should begin with http:// or https://.`];
  }
  const there = new URL("/", url);
  if (invite.value) there.searchParams.set("invite", invite.value);
  return ["The link names another gateway than the one that served this page. ", h("a", { href: there.href }, `Open ${url.host}’s own page`), " to give to it."];
}

function start() {
  // Work that is being handed on would be lost with its Worker.
  if (startButton.disabled || session.phase === "stopping") return;
  if (network?.invite_required && !invite.value.trim()) {
    invite.setAttribute("aria-invalid", "true");
    invite.focus();
    return setText(stateLine, "The invitation is missing");
  }
  invite.removeAttribute("aria-invalid");
  session.start({
    gateway: location.origin,
    slots: Number(slots.value),
    policy: sharing.policy,
    knows: computer.knows,
    // As `manyhands up --speed` has it: it is not measured then.
    ...(Number(address.get("speed")) > 0 && { speed: Number(address.get("speed")) }),
    ...(name.value.trim() && { name: name.value.trim() }),
    ...(invite.value.trim() && { invite: invite.value.trim() }),
  });
  stopButton.focus();
}

/** Shows the gateway that is asked, and who else gives; the page works without the answers. */
async function meetGateway() {
  try {
    const met = /** @type {Api.Network} */ (await (await fetch("/api/v1/network")).json());
    network = met;
    const short = h("span", { class: "whole-word" }, shortNode(met.node));
    byId("whom").replaceChildren(...(met.name ? [`the gateway “${met.name}” (`, short, ")"] : ["the gateway ", short]));
    setText(byId("this-node"), met.version ? `Gateway version ${met.version}` : "");
    setHidden(inviteField, !met.invite_required);
    const { nodes } = /** @type {Api.NodeList} */ (await (await fetch("/api/v1/nodes")).json());
    const others = nodes.reduce((sum, node) => sum + node.slots, 0);
    if (nodes.length > 1) setText(byId("swarm"), `${plural(nodes.length, "node")} with ${plural(others, "slot")} ${nodes.length === 1 ? "is" : "are"} in this swarm now.`);
  } catch {
    // The Worker asks again and says what is wrong.
  }
}

function show() {
  const { phase, work, running, totals } = session;
  const given = Number(slots.value);
  const busy = running ? Math.min(work.busy, given) : 0;

  setText(slotsWords, `${given} of ${plural(cores, "core")}`);
  slots.setAttribute("aria-valuetext", `${plural(given, "slot")} of ${plural(cores, "core")}`);
  slots.style.setProperty("--filled", `${cores === 1 ? 100 : ((given - 1) / (cores - 1)) * 100}%`);
  drawing.update({ cores, given, busy, on: phase === "connected" && session.policy.works });

  // For style and for tests; people read the words.
  byId("stage").dataset.phase = phase;
  const [headline, detail] = words();
  setText(stateLine, headline);
  setText(detailLine, detail);
  const restarted = ["connecting", "connected", "offline"].includes(phase) ? session.failure : null;
  setText(byId("restarted"), restarted ? `The node in this tab failed and was started again. What happened: ${restarted.message}` : "");
  setHidden(byId("restarted"), !restarted);
  setText(byId("battery"), battery(running));
  setHidden(byId("battery"), !byId("battery").textContent);
  setText(byId("unknown"), running ? session.policy.unknown.map(sentence).join(" ") : "");
  setHidden(byId("unknown"), !byId("unknown").textContent);
  setHidden(startButton, running && phase !== "rejected");
  setHidden(stopButton, !running);
  startButton.setAttribute("aria-disabled", String(phase === "stopping"));
  setText(startButton, phase === "stopping" ? "One moment" : phase === "failed" || phase === "rejected" ? "Try again" : phase === "off" && session.hasRun ? "Start again" : "Start");
  setHidden(byId("options"), running);
  setHidden(byId("slots-hint"), running);
  // Refused for its invitation, unless the gateway says that it asks for none.
  if (phase === "rejected" && network?.invite_required !== false) setHidden(inviteField, false);
  invite.disabled = running && phase !== "rejected";

  setHidden(byId("working"), !running && !(totals.units_done || totals.units_failed || totals.cpu_us));
  setText(byId("units-done"), count(totals.units_done) + (totals.units_failed ? ` (${count(totals.units_failed)} failed)` : ""));
  setText(byId("cpu-time"), span(totals.cpu_us / 1e6));
  setText(byId("connection"), connection());
  showSales(running);
  showCurrent(work, running);
  document.title = running && phase === "connected" && session.policy.works ? "Giving · Manyhands" : "Manyhands: lend a hand";
}

/** Headline (read aloud when it changes) and detail. */
function words() {
  const { phase, detail, failure, work } = session;
  switch (phase) {
    case "off":
      return session.hasRun
        ? ["Stopped", "Thank you. Nothing of it runs in this tab any more."]
        : ["Not started", "Nothing runs before you press Start."];
    case "starting":
      return [failure ? `Starting again, restart ${failure.restart} of ${failure.of}` : "Starting", "Loading the node, about 900 kB."];
    case "connecting":
      return ["Connecting", detail];
    case "offline":
      return ["No connection", detail || "The gateway cannot be reached. This tab keeps trying."];
    case "rejected":
      return ["The gateway did not let this tab in", detail];
    case "stopping":
      return ["Stopping", "Handing your work on, so that it goes on elsewhere. This takes a moment."];
    case "restarting": {
      if (!failure) return ["Starting again", detail];
      const left = Math.max(0, Math.ceil(((failure.at ?? 0) - Date.now()) / 1000));
      return [`The node in this tab failed; restart ${failure.restart} of ${failure.of}`, `In ${left} s. What happened: ${failure.message}`];
    }
    case "failed":
      return ["The node in this tab keeps failing", `It was started again ${failure?.of ?? 0} times. What happened last: ${failure?.message ?? detail}`];
    default:
      return working(work, detail);
  }
}

/** @param {Work} work @param {string} detail */
function working(work, detail) {
  const now = performance.now();
  if (work.busy > 0) busyAt = now;
  clearTimeout(pauseTimer);
  if (!session.policy.works) return [work.busy ? "Handing on what runs here" : "Not working now", why(session.policy)];
  if (now - busyAt < PAUSE) {
    pauseTimer = setTimeout(show, PAUSE);
    return ["Computing", `${plural(Math.max(work.busy, 1), "slot")} at work${work.queued ? `, ${plural(work.queued, "unit")} in line` : ""}`];
  }
  // The own gateway is spoken of when it is away.
  const away = detail === "connected" ? "" : detail;
  return ["Ready, waiting for work", away || work.idle_reason || "No unit needs this tab just now."];
}

/** Why nothing runs, and when something will: when none of it holds any more. @param {PolicyNow} policy */
function why({ reasons }) {
  const because = reasons.map(({ reason }) => sentence(plainly(reason)));
  return [...because, `It goes on when ${reasons.map(({ until }) => plainly(until)).join(", and ")}.`].join(" ");
}

/** @param {string} words */
const sentence = (words) => `${capital(words)}.`;

/** @param {boolean} running */
function battery(running) {
  const { on_battery, charge_pct } = computer.knows;
  // Then that is what the page says anyway.
  if (!on_battery || (running && !session.policy.works)) return "";
  const left = `This computer runs on its battery (${charge_pct} % left).`;
  return running
    ? `${left} Giving empties it sooner: plug it in, or give fewer slots.`
    : `${left} “When and how much” says what may run then; unless you changed it, nothing does.`;
}

function connection() {
  switch (session.phase) {
    case "connected":
      return session.gateway ? shortNode(session.gateway) : "made";
    case "connecting":
    case "starting":
      return "being made";
    case "rejected":
      return "refused";
    case "offline":
      return "lost, trying again";
    default:
      return "none";
  }
}

/** Shows the tab's sales and its balance. @param {boolean} running */
function showSales(running) {
  const sales = running ? session.sales : null;
  const balance = sales?.balance ?? null;
  setText(byId("balance"), balance === null ? "" : credits(balance));
  setHidden(byId("account"), balance === null);
  setText(byId("selling"), sales && phrase(sales));
  setHidden(byId("selling"), !sales);
}

/** @param {Sales} sales */
function phrase({ cost, listed }) {
  const price = `at ${count(cost)} µcr or more for 10⁹ fuel`;
  if (!session.policy.works) return `Nothing is for sale while this tab gives nothing; then, ${price}.`;
  return listed
    ? `Slots that are free are for sale ${price}.`
    : `For sale ${price}, once a slot is free and the swarm’s market has listed it.`;
}

/** @param {Work} work @param {boolean} running */
function showCurrent(work, running) {
  const list = byId("current");
  const rows = running ? work.current.slice(0, ROWS) : [];
  renew(list, rows, (unit) => `${unit.job}/${unit.index}`, unitRow);
  const more = running ? work.current.length - rows.length : 0;
  const words = more > 0 ? `and ${plural(more, "unit")} more` : rows.length || !running ? "" : "Nothing at this moment.";
  setText(byId("nothing"), words);
  setHidden(byId("now-title"), !running);
  // Units come and go: the page below must not jump with them.
  byId("in-hand").style.minHeight = running ? `${Math.min(ROWS, Number(slots.value)) * 1.75 + 0.35}rem` : "0";
}

/** @returns {Row<Current>} */
function unitRow() {
  const job = h("span", { class: "name" });
  const unit = h("span", { class: "unit number" });
  const time = h("span", { class: "time" });
  return {
    element: h("li", null, h("span", { class: "dot" }), job, unit, time),
    update(current) {
      setText(job, current.name || "unnamed job");
      job.title = readable(current.name);
      setText(unit, `unit ${count(current.index)}`);
      setText(time, span(current.for_us / 1e6));
    },
  };
}

setUp();
