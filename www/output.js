// All that the units of a job printed, joined in their order, as one file.

import * as api from "./api.js";
import { h, setHidden, setText } from "./dom.js";
import { count, plural, size } from "./format.js";
import { bytesOf, save } from "./results.js";
import { errorText } from "./text.js";

const PAGE = 500;
/** Held in the tab's memory until it is saved. Our choice: what a phone bears. */
const MOST = 256 << 20;

/** @param {string} id of the job */
export function allOutput(id) {
  const button = h("button", { type: "button", class: "button slim" }, "Download all output");
  const words = h("p", { class: "soft small", role: "status" });
  const element = h("div", { class: "row", hidden: true }, button, words);
  const closing = new AbortController();
  /** @type {Api.Job | null} */
  let job = null;

  button.addEventListener("click", async () => {
    if (!job) return;
    button.disabled = true;
    try {
      const { parts, bytes, units, cut } = await collect(job);
      save(new Blob(parts, { type: "application/octet-stream" }), `${job.name || job.short}.txt`.replace(/[\\/:*?"<>|\x00-\x1f]+/g, "-"));
      setText(words, cut
        ? `Saved the first ${plural(units, "unit")} (${size(bytes)}); more than ${size(MOST)} does not fit in a tab. “manyhands results ${job.short} -o DIR” saves all.`
        : `Saved what ${plural(units, "unit")} printed, ${size(bytes)}.`);
    } catch (error) {
      if (!closing.signal.aborted) setText(words, `Not saved. ${errorText(error)}`);
    }
    button.disabled = false;
  });

  /** @param {Api.Job} job */
  async function collect(job) {
    /** @type {BlobPart[]} */
    const parts = [];
    let [bytes, units] = [0, 0];
    /** @type {number | null} */
    let from = 0;
    while (from !== null) {
      /** @type {Api.ResultList} */
      const answer = await api.results(id, from, PAGE, closing.signal);
      for (const { stdout } of answer.results) {
        if (bytes + stdout.len > MOST) return { parts, bytes, units, cut: true };
        parts.push(typeof stdout.base64 === "string" ? bytesOf(stdout.base64) : stdout.len ? await api.content(stdout.url, closing.signal) : "");
        bytes += stdout.len;
        units += 1;
      }
      setText(words, `Read ${count(units)} of ${count(job.units.done)}`);
      from = answer.next ?? null;
    }
    return { parts, bytes, units, cut: false };
  }

  return {
    element,
    show(/** @type {Api.Job} */ next) {
      job = next;
      setHidden(element, next.units.total === 1 || next.units.done === 0);
      if (!words.textContent) setText(words, "What the units printed, joined in their order.");
    },
    close: () => closing.abort(),
  };
}
