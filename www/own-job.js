// One job of this tab: how it stands, and what came of it.

import { h, replace, setHidden, setText } from "./dom.js";
import { count, plural, shortNode, size, span } from "./format.js";
import { inCredits } from "./money.js";
import { badge, isOver } from "./progress.js";
import { save } from "./results.js";
import { errorText } from "./text.js";

/** @import { Row } from "./dom.js" */
/** @import { OwnJob, OwnResult } from "./messages.js" */
/** @import { Submitter } from "./submitter.js" */

/** Units whose results are listed. Our choice: what a page scrolls; the rest is in the file. */
const LISTED = 100;
/** Bytes of an output that are shown. */
const SHOWN = 2000;
const FORGET = "Forget";
/** Between two looks at results that come in, ms. */
const LOOK = 1000;

/** @param {Submitter} submitter @returns {Row<OwnJob>} */
export function ownJob(submitter) {
  const name = h("h3", { class: "name" });
  const state = badge("waiting");
  const bar = h("progress", { max: "1", value: "0" });
  const reason = h("p", { class: "reason" });
  const facts = h("p", { class: "soft small" });
  const cancel = h("button", { type: "button", class: "button slim" }, "Cancel");
  const all = h("button", { type: "button", class: "button slim", hidden: true }, "Download all output");
  const forget = h("button", { type: "button", class: "button slim", hidden: true }, FORGET);
  const words = h("p", { class: "soft small", role: "status" });
  const results = h("ol", { class: "own-results" });
  const element = h("li", { class: "card pad own-job" },
    h("div", { class: "head" }, name, state.element), bar, reason, facts, results, h("div", { class: "row" }, cancel, all, forget, words));
  /** @type {OwnJob | null} */
  let job = null;
  let listed = 0;
  let looked = -Infinity;
  let timer = 0;

  cancel.addEventListener("click", () => job && submitter.cancel(job.id));
  // It takes two presses: the results are nowhere else.
  let sure = false;
  /** @param {boolean} next */
  const ask = (next) => {
    sure = next;
    setText(forget, sure ? "Forget it and its results?" : FORGET);
  };
  forget.addEventListener("click", () => (sure && job ? submitter.forget(job.id) : ask(true)));
  forget.addEventListener("blur", () => ask(false));
  all.addEventListener("click", async () => {
    if (!job) return;
    all.disabled = true;
    try {
      const found = await everything(submitter, job.id);
      const blobs = found.map(({ stdout }) => /** @type {BlobPart} */ (stdout ?? ""));
      save(new Blob(blobs, { type: "application/octet-stream" }), `${job.name}.txt`.replace(/[\\/:*?"<>|\x00-\x1f]+/g, "-"));
      const lost = found.filter(({ stdout }) => stdout === null).length;
      setText(words, `Saved what ${plural(found.length - lost, "unit")} printed.${lost ? ` The output of ${plural(lost, "unit")} is not in this tab any more.` : ""}`);
    } catch (error) {
      setText(words, `Not saved. ${errorText(error)}`);
    }
    all.disabled = false;
  });

  /** Lists results that have come since, once in a while. */
  async function list() {
    clearTimeout(timer);
    if (!job || listed >= LISTED || listed === job.done + job.failed) return;
    const wait = looked + LOOK - performance.now();
    if (wait > 0) {
      timer = setTimeout(list, wait);
      return;
    }
    looked = performance.now();
    try {
      const { id, units } = job;
      const found = await submitter.results(id, 0, LISTED, SHOWN);
      listed = found.length;
      replace(results, found.map((one) => resultRow(submitter, id, one, words)), units > LISTED && h("li", { class: "soft" }, `The first ${count(LISTED)} units are listed; all are in the file.`));
    } catch {
      // The node has ended. The next one has the jobs that the browser kept, and says so.
    }
  }

  return {
    element,
    update(next) {
      const over = isOver(next);
      job = next;
      setText(name, next.name);
      state.update(next.state);
      bar.value = (next.done + next.failed) / next.units;
      bar.setAttribute("aria-label", `${count(next.done)} of ${plural(next.units, "unit")} done`);
      setText(reason, next.reason);
      setText(facts, [`${count(next.done)} of ${plural(next.units, "unit")} done`, next.failed && `${count(next.failed)} failed`,
        next.nodes && `by ${plural(next.nodes, "node")}`, next.cpu_us && `${span(next.cpu_us / 1e6)} of CPU time`,
        next.paid !== null && `${inCredits(next.paid)} paid`].filter(Boolean).join(" · "));
      setHidden(cancel, over);
      setHidden(all, !over || !next.done);
      setHidden(forget, !over);
      list();
    },
  };
}

/** All results of a job, in order. @param {Submitter} submitter @param {string} job */
async function everything(submitter, job) {
  /** @type {OwnResult[]} */
  const all = [];
  for (;;) {
    const found = await submitter.results(job, (all.at(-1)?.index ?? -1) + 1);
    if (!found.length) return all;
    all.push(...found);
  }
}

/** @param {Submitter} submitter @param {string} job @param {OwnResult} result @param {HTMLElement} words for what went wrong */
function resultRow(submitter, job, { index, ok, end, node, stdout, stdout_len, stderr, files }, words) {
  const printed = [stdout, stderr].map((bytes) => (bytes ? new TextDecoder().decode(bytes) : ""));
  /** @param {string} path */
  const keep = async (path) => {
    const [whole] = await submitter.results(job, index, 1).catch(() => []);
    const [, , bytes] = whole?.files.find(([name]) => name === path) ?? [];
    setText(words, bytes ? "" : `Not saved. ${path} is not in this tab just now.`);
    if (bytes) save(new Blob([/** @type {BlobPart} */ (bytes)]), path.split("/").at(-1) ?? path);
  };
  return h("li", null,
    h("p", { class: "small" }, h("span", { class: "number" }, `unit ${count(index)}`), h("span", { class: "soft" }, ` on ${shortNode(node)}`), !ok && h("span", { class: "fault" }, ` ${end}`)),
    printed.filter(Boolean).map((text) => h("pre", { class: "output" }, text)),
    stdout_len > SHOWN && h("p", { class: "soft small" }, `The first part of ${size(stdout_len)}.`),
    files.map(([path, length]) => h("button", { type: "button", class: "button slim", onclick: () => keep(path) }, `Save ${path}`, h("span", { class: "soft small" }, ` ${size(length)}`))));
}
