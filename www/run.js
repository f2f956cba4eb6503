// The page that runs a program from a tab: a form, and the jobs that this tab owns.

import { buying } from "./buying.js";
import { byId, h, renew, setHidden, setText } from "./dom.js";
import { chosen, dropZone } from "./drop.js";
import { entry, form as smallForm } from "./form.js";
import { capital, count, shortNode, size } from "./format.js";
import { credits } from "./money.js";
import { ownJob } from "./own-job.js";
import { isOver } from "./progress.js";
import { Session } from "./session.js";
import { Submitter, hasLeft } from "./submitter.js";
import { errorText } from "./text.js";
import { programFault, splitWords } from "./words.js";

/** @import { Wanted } from "./messages.js" */

/** Units of one job at most, as a node's bounds have it. */
const MOST_UNITS = 1_000_000;
/** Bytes of a program or of an input: what a tab keeps of one content (`web/node/src/driver/start.rs`). */
const MOST_BYTES = 128 << 20;

const session = new Session(() => new Worker("/submitting-worker.js", { type: "module", name: "manyhands-submitting-node" }));
const submitter = new Submitter(session);
/** @type {File | null} */
let program = null;
let sending = false;
/** The job that has just been taken, until it is on the page. */
let fresh = "";

const programLine = h("div", { class: "chosen", hidden: true });
const programWrong = h("p", { class: "fault", id: "program-fault", role: "alert" });
const zone = dropZone({
  id: "program", title: "Drop a .wasm here, or choose one", accept: ".wasm,application/wasm",
  hint: "A WASI preview 1 command: any language, compiled for wasm32-wasip1.",
  onFiles: ([first], left) => (first ? takeProgram(first.file) : setText(programWrong, left)),
});
const args = h("input", { id: "arguments", type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-describedby": "arguments-hint" });
const argsHint = h("p", { class: "hint", id: "arguments-hint" });
const units = h("input", { id: "units", type: "number", min: "1", max: String(MOST_UNITS), step: "1", value: "1", inputmode: "numeric" });
const first = h("input", { id: "first", type: "number", min: "0", step: "1", value: "0", inputmode: "numeric" });
const input = h("textarea", { id: "input", rows: "3", spellcheck: "false" });
const invite = h("input", { id: "invite", type: "text", spellcheck: "false", autocapitalize: "off", maxlength: "256", value: new URLSearchParams(location.search).get("invite") ?? keptInvite() });
const inviteField = h("div", { class: "field", hidden: true }, h("label", { for: "invite" }, "Invitation"), invite,
  h("p", { class: "hint" }, "This gateway lets in who knows its invitation. Whoever runs it can tell you."),
  h("button", { type: "button", class: "button slim", onclick: () => begin() }, "Connect"));
const places = buying();
const balance = h("p", { class: "soft", role: "status" }, "");
const button = h("button", { type: "submit", form: "own-form", class: "button primary big" }, "Run");
const fault = h("p", { class: "fault", role: "alert" });

const code = smallForm({
  label: "Credit of an invite", action: "Take it", busy: "Asking the bank",
  entries: {
    code: entry({
      id: "code", label: "Code of an invite for credit", spellcheck: "false", autocapitalize: "off", class: "mono",
      hint: "Whoever runs the swarm’s bank gives them out. The credit belongs to this tab’s key, as this browser keeps it.",
      read: ({ value }) => (/^[0-9a-f]{32}$/i.test(value.trim()) ? value.trim() : new Error("A code has 32 digits, of 0 to 9 and a to f.")),
    }),
  },
  async send({ code }) {
    begin();
    await connected();
    await submitter.redeem(code);
    return "Taken.";
  },
});

const form = h("form", { class: "own-form", id: "own-form", novalidate: true, autocomplete: "off", "aria-label": "Program" },
  h("section", { class: "card pad part" },
    h("div", null, zone.element, programLine, programWrong),
    h("div", { class: "field" }, h("label", { for: "arguments" }, "Arguments"), args, argsHint),
    h("div", { class: "pair" },
      h("div", { class: "field" }, h("label", { for: "units" }, "Units"), units),
      h("div", { class: "field" }, h("label", { for: "first" }, "Number of the first"), first)),
    h("div", { class: "field" }, h("label", { for: "input" }, "Standard input ", h("span", { class: "soft" }, "(optional)")), input),
    inviteField),
  h("details", { class: "card pad" }, h("summary", null, "Pay for places"), balance, places.element));

function setUp() {
  byId("form").append(form, h("details", { class: "card pad" }, h("summary", null, "I have a code for credit"), code),
    h("div", { class: "row" }, button, fault));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  for (const field of [args, units, first]) field.addEventListener("input", explain);
  explain();
  session.addEventListener("change", showState);
  submitter.addEventListener("change", showJobs);
  addEventListener("pagehide", () => session.leave());
  // Where the browser keeps nothing, the jobs end with the tab.
  const ends = () => !session.name && submitter.jobs.some((job) => !isOver(job));
  addEventListener("beforeunload", (event) => ends() && event.preventDefault());
  meetGateway();
  if (hasLeft()) begin();
}

async function meetGateway() {
  try {
    const met = /** @type {Api.Network} */ (await (await fetch("/api/v1/network")).json());
    setHidden(inviteField, !met.invite_required);
  } catch {
    // The node asks again and says what is wrong.
  }
}

/** @param {File} file */
async function takeProgram(file) {
  /** @param {unknown} error */
  const unread = (error) => `It could not be read. ${errorText(error)}`;
  const wrong = file.size > MOST_BYTES ? `It has ${size(file.size)}; a tab takes ${size(MOST_BYTES)} at most.` : await file.slice(0, 64).arrayBuffer().then((head) => programFault(new Uint8Array(head), file.size), unread);
  setText(programWrong, wrong ?? "");
  if (wrong) return;
  program = file;
  chosen(programLine, file, zone.element, () => {
    program = null;
    zone.input.focus();
  });
}

/** Says how the units differ. */
function explain() {
  const [n, from] = [Number(units.value), Number(first.value)];
  const numbers = n > 1 ? `${count(from)} to ${count(from + n - 1)}` : count(from);
  const holds = args.value.includes("{}");
  setText(argsHint, holds ? `{} becomes the number of each unit, ${numbers}.`
    : n > 1 ? "All units do the same. Write {} where the number of a unit belongs." : "As on a command line: blanks part them, quotes hold together.");
}

/** The job that the form describes, or an Error in words and the field at fault. @returns {{ job: Wanted } | { wrong: string, at: HTMLElement }} */
function wanted() {
  if (!inviteField.hidden && !invite.value.trim()) return { wrong: "Write the invitation first.", at: invite };
  if (session.phase === "rejected") return { wrong: "This tab is not let in. Write another invitation, and press Connect.", at: invite };
  if (!program) return { wrong: "Choose a program first.", at: zone.input };
  const { words, fault: open } = splitWords(args.value);
  if (open) return { wrong: open, at: args };
  const [n, from] = [Number(units.value), Number(first.value)];
  if (!Number.isInteger(n) || n < 1 || n > MOST_UNITS) return { wrong: `A job has 1 to ${count(MOST_UNITS)} units.`, at: units };
  if (!Number.isSafeInteger(from) || from < 0) return { wrong: "The first number is a whole one, 0 or more.", at: first };
  const unpaid = places.wrong();
  if (unpaid) return { wrong: unpaid[0], at: unpaid[1] };
  const { find, ...terms } = places.values();
  const sweep = n > 1 || args.value.includes("{}") ? { units: n, first: from } : {};
  return { job: /** @type {Wanted} */ ({ name: program.name.replace(/\.wasm$/, "") || "program", arguments: words, ...sweep, ...terms }) };
}

async function run() {
  if (sending) return;
  const asked = wanted();
  if ("wrong" in asked) {
    setText(fault, asked.wrong);
    return asked.at.focus();
  }
  setText(fault, "");
  sending = button.disabled = true;
  try {
    const bytes = new Uint8Array(await /** @type {File} */ (program).arrayBuffer());
    begin();
    fresh = await submitter.submit(asked.job, bytes, new TextEncoder().encode(input.value));
    showJobs();
  } catch (error) {
    setText(fault, `It does not run. ${errorText(error)}`);
  }
  sending = button.disabled = false;
}

/** The invitation of before, in this tab alone. */
function keptInvite() {
  try {
    return sessionStorage.getItem("manyhands-invite") ?? "";
  } catch {
    return "";
  }
}

/** Starts this tab's node, if it does not run. It gives nothing. */
function begin() {
  if (session.running && session.phase !== "rejected") return;
  try {
    sessionStorage.setItem("manyhands-invite", invite.value.trim());
  } catch {
    // It is asked for again.
  }
  session.start({ gateway: location.origin, slots: 0, policy: {}, knows: {}, ...(invite.value.trim() && { invite: invite.value.trim() }) });
}

/** Settles once the node is connected. @returns {Promise<void>} */
function connected() {
  return new Promise((yes, no) => {
    const look = () => {
      const { phase } = session;
      if (phase !== "connected" && phase !== "rejected" && phase !== "failed") return;
      session.removeEventListener("change", look);
      if (phase === "connected") yes();
      else no(new Error(session.detail || "This tab’s node does not run."));
    };
    session.addEventListener("change", look);
    look();
  });
}

function showState() {
  const { phase, detail, failure } = session;
  /** @type {Partial<Record<typeof phase, string>>} */
  const words = {
    starting: "Loading this tab’s node",
    connecting: `Connecting: ${detail}`,
    connected: `Connected by ${shortNode(session.gateway ?? "")}`,
    offline: detail || "The gateway cannot be reached. This tab keeps trying.",
    rejected: `The gateway did not let this tab in: ${detail}`,
    restarting: `This tab’s node failed and is started again: ${failure?.message ?? detail}`,
    failed: `This tab’s node keeps failing: ${failure?.message ?? detail}`,
    stopping: "Stopping",
  };
  const says = words[phase] ?? "This tab’s node does not run.";
  setText(byId("state"), capital(says));
  // It stays while the node tries again.
  if (["offline", "rejected", "failed"].includes(phase)) setText(byId("trouble"), capital(says));
  if (phase === "connected") setText(byId("trouble"), "");
  setHidden(byId("trouble"), !byId("trouble").textContent);
  if (phase === "rejected") setHidden(inviteField, false);
  setText(byId("kept"), phase === "connected" && !session.name
    ? "This browser keeps nothing of this tab, as over plain HTTP from another machine: its jobs end with it." : "");
  setHidden(byId("kept"), !byId("kept").textContent);
}

function showJobs() {
  setText(balance, submitter.balance === null ? "" : `This tab has ${credits(submitter.balance)} credits.`);
  setHidden(byId("jobs"), !submitter.jobs.length);
  renew(byId("list"), submitter.jobs, (job) => job.id, () => ownJob(submitter));
  if (!submitter.jobs.some(({ id }) => id === fresh)) return;
  fresh = "";
  byId("jobs").scrollIntoView({ block: "nearest" });
}

setUp();
