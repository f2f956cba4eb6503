// Results: what a unit printed, how it ended, and the files that it left.

import * as api from "./api.js";
import { h, replace, setHidden, setText } from "./dom.js";
import { count, plural, shortNode, size, span } from "./format.js";
import { isOver } from "./progress.js";
import { errorText, readable } from "./text.js";

/** Shown of an output; the rest is a download away. Our choice: what a page scrolls smoothly. */
const PREVIEW = 64 * 1024;
/** Read for a preview when it did not come with the result. */
const READ = 1 << 20;

/**
 * Reads and shows the result of one unit in `place`.
 * @param {Element} place
 * @param {string} id of the job
 * @param {number} index
 * @returns {Promise<void>}
 */
export async function resultDetail(place, id, index) {
  replace(place, h("p", { class: "soft" }, "Reading the result…"));
  try {
    const { results } = await api.results(id, index, 1);
    const result = results.find((one) => one.index === index);
    replace(place, result ? resultView(id, result) : h("p", { class: "soft" }, "The result is not here yet. Try again in a moment."));
  } catch (error) {
    replace(place, h("p", { class: "fault", role: "alert" }, errorText(error)), again(() => resultDetail(place, id, index)));
  }
}

/** @param {() => unknown} action */
const again = (action) => h("button", { type: "button", class: "button slim", onclick: action }, "Try again");

/** The output of a job of one unit, at the top of its page. @param {string} id */
export function outputPart(id) {
  const body = h("div", { class: "card pad" });
  const element = h("section", { "aria-labelledby": "output", hidden: true }, h("h2", { id: "output" }, "Output"), body);
  let shown = false;
  return {
    element,
    async load(/** @type {Api.Job} */ job, /** @type {AbortSignal} */ signal) {
      if (job.units.total !== 1 || shown) return;
      setHidden(element, job.state === "cancelled" && !job.units.done);
      if (job.units.done + job.units.failed + job.units.held === 0) {
        if (!isOver(job)) replace(body, h("p", { class: "soft" }, "What the program prints stands here as soon as it has ended."));
        return;
      }
      const { results } = await api.results(id, 0, 1, signal);
      if (!results.length) return;
      shown = true;
      replace(body, resultView(id, results[0]));
    },
  };
}

/** @param {string} id @param {Api.Result} result */
function resultView(id, result) {
  const ended = result.exit_code === null || result.exit_code === undefined ? result.message : `Exit code ${result.exit_code}`;
  const words = [ended, `${span(result.cpu_s)} of CPU time`, result.runner ? `on ${shortNode(result.runner)}` : null,
    result.attempts > 1 ? `placed ${count(result.attempts)} times` : null];
  return h("div", { class: "result" },
    h("p", { class: result.success ? "end" : "end fault" }, words.filter(Boolean).join(" · ")),
    stream("Standard output", result.stdout, `${id.slice(0, 8)}-${result.index}.stdout`, true),
    stream("Standard error", result.stderr, `${id.slice(0, 8)}-${result.index}.stderr`, false),
    result.files?.length ? fileList(result.files) : null);
}

/**
 * One output stream; an empty one is worth a line only when it is the main one.
 * @param {string} label
 * @param {Api.Output} data
 * @param {string} fileName
 * @param {boolean} main
 */
function stream(label, data, fileName, main) {
  if (!data?.len) return main ? h("div", { class: "stream" }, h("p", { class: "label" }, label), h("p", { class: "soft" }, "It printed nothing.")) : null;
  const body = h("div");
  const head = h("div", { class: "stream-head" }, h("p", { class: "label" }, label, h("span", { class: "soft small" }, ` ${size(data.len)}`)), download(data.url, fileName));
  if (data.base64 !== null && data.base64 !== undefined) showBytes(body, bytesOf(data.base64), data.len, label);
  else if (data.len <= READ) {
    const load = h("button", { type: "button", class: "button slim" }, "Show it here");
    load.addEventListener("click", async () => {
      load.disabled = true;
      try {
        showBytes(body, new Uint8Array(await (await api.content(data.url)).arrayBuffer()), data.len, label);
      } catch (error) {
        replace(body, h("p", { class: "fault", role: "alert" }, errorText(error)), load);
        load.disabled = false;
      }
    });
    replace(body, load);
  } else replace(body, h("p", { class: "soft" }, "Too long to show here; download it."));
  return h("div", { class: "stream" }, head, body);
}

/** @param {Element} place @param {Uint8Array} bytes @param {number} total @param {string} label */
function showBytes(place, bytes, total, label) {
  const text = asText(bytes.subarray(0, PREVIEW));
  if (text === null) return replace(place, h("p", { class: "soft" }, "This is no text. Download it to look at it."));
  const cut = Math.min(bytes.length, PREVIEW) < total;
  replace(place,
    h("pre", { class: "output", tabindex: "0", role: "region", "aria-label": label }, text),
    cut ? h("p", { class: "soft small" }, `The first ${size(Math.min(bytes.length, PREVIEW))} of ${size(total)}.`) : null);
}

/** @param {string} base64 */
export function bytesOf(base64) {
  const raw = atob(base64);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** Text, or null when the bytes are none: a zero byte, or many that are no UTF-8. @param {Uint8Array} bytes */
function asText(bytes) {
  if (bytes.includes(0)) return null;
  const text = new TextDecoder().decode(bytes);
  let strange = 0;
  for (const character of text) if (character === "\uFFFD") strange += 1;
  // A preview may cut one character in half.
  return strange > 3 && strange > text.length / 50 ? null : text;
}

/** @param {Api.OutputFile[]} files */
function fileList(files) {
  return h("div", { class: "stream" },
    h("p", { class: "label" }, plural(files.length, "file")),
    h("ul", { class: "file-list" }, files.map((file) =>
      h("li", null, h("span", { class: "mono name" }, file.path), h("span", { class: "soft small number" }, size(file.len)),
        download(file.url, file.path.split("/").at(-1) ?? file.path)))));
}

/**
 * A link cannot carry the token, so the content is fetched and then saved.
 * @param {string} url
 * @param {string} fileName
 */
export function download(url, fileName) {
  const button = h("button", { type: "button", class: "button slim", "aria-label": `Download ${fileName}` }, "Download");
  button.addEventListener("click", async () => {
    button.disabled = true;
    setText(button, "Loading…");
    try {
      save(await api.content(url), fileName);
      setText(button, "Download");
    } catch (error) {
      setText(button, "Failed; try again");
      button.title = readable(errorText(error));
    }
    button.disabled = false;
  });
  return button;
}

/** @param {Blob} blob @param {string} fileName */
export function save(blob, fileName) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: fileName });
  link.click();
  // The download has begun by then; the blob itself lives until it is read.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
