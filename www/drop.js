// Places to drop files on. Each is a labelled file input first, so keyboard and screen reader
// have the same way in.

import { h, replace, setHidden } from "./dom.js";
import { size } from "./format.js";
import { errorText } from "./text.js";

/** Files that go into a job at most, as the gateway has it. */
export const MOST = 1000;

/** @typedef {{ path: string, file: File }} Dropped */

/**
 * `onFiles([{path, file}], left)`: `left` says in words what was not taken.
 * Gives `{element, input, settled()}`: settled when all that was dropped has been read and taken.
 * @param {{
 *   id: string, title: string, hint: string, accept?: string, multiple?: boolean,
 *   onFiles: (files: Dropped[], left: string) => unknown,
 * }} about
 */
export function dropZone({ id, title, hint, accept, multiple = false, onFiles }) {
  const input = h("input", { id, type: "file", class: "sr-only", accept, multiple, "aria-describedby": `${id}-hint` });
  const element = h("div", { class: "drop" }, input,
    h("label", { for: id }, h("span", { class: "drop-title" }, title), h("span", { class: "hint", id: `${id}-hint` }, hint)));
  /** @type {Promise<unknown>} */
  let taking = Promise.resolve();
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])].map((file) => ({ path: file.name, file }));
    // Choosing a file again is a change, too.
    input.value = "";
    if (files.length) taking = Promise.all([taking, onFiles(files, "")]);
  });
  takeDrops(element, (transfer) => {
    const reading = dropped(transfer).then(({ files, left }) => {
      const kept = multiple ? files : files.slice(0, 1);
      if (!kept.length && !left) return null;
      return onFiles(kept, left || (kept.length < files.length ? "Only one file fits here; the first was taken." : ""));
    });
    taking = Promise.all([taking, reading]);
  });
  return { element, input, settled: () => taking };
}

/**
 * Shows what was chosen in place of `instead`, until it is removed.
 * @param {HTMLElement} line
 * @param {File} file
 * @param {HTMLElement} instead
 * @param {() => void} onRemove
 */
export function chosen(line, file, instead, onRemove) {
  replace(line, h("span", { class: "name" }, file.name), h("span", { class: "soft small number" }, size(file.size)),
    h("button", {
      type: "button", class: "button slim", "aria-label": `Remove ${file.name}`,
      onclick: () => {
        setHidden(line, true);
        setHidden(instead, false);
        onRemove();
      },
    }, "Remove"));
  setHidden(line, false);
  setHidden(instead, true);
}

/**
 * Makes an element take drops of files; text that is dragged stays the browser's business.
 * @param {HTMLElement} element
 * @param {(transfer: DataTransfer) => unknown} onDrop
 */
export function takeDrops(element, onDrop) {
  let depth = 0;
  /** @param {DragEvent} event */
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  /** @param {boolean} on */
  const mark = (on) => element.classList.toggle("over", on);
  element.addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth += 1;
    mark(true);
  });
  element.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
  });
  element.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    if (depth === 0) mark(false);
  });
  element.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    mark(false);
    if (event.dataTransfer) onDrop(event.dataTransfer);
  });
}

/** @param {FileSystemEntry} entry @returns {entry is FileSystemFileEntry} */
const isFile = (entry) => entry.isFile;

/** Files of a drop, those in folders with their paths. @param {DataTransfer} transfer */
async function dropped(transfer) {
  // Entries must be taken in the same turn; later the list is empty.
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? null);
  const plain = [...transfer.files];
  if (!entries.some((entry) => entry?.isDirectory)) return { files: plain.map((file) => ({ path: file.name, file })), left: "" };
  /** @type {Dropped[]} */
  const files = [];
  let left = "";
  /** @param {FileSystemEntry | null} entry @param {string} prefix */
  const walk = async (entry, prefix) => {
    if (!entry) return;
    if (files.length >= MOST) {
      left = `Only the first ${MOST} files were taken.`;
      return;
    }
    if (isFile(entry)) {
      try {
        files.push({ path: prefix + entry.name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
      } catch (error) {
        left = `${prefix}${entry.name} could not be read: ${errorText(error)}`;
      }
      return;
    }
    const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
    for (;;) {
      /** @type {FileSystemEntry[]} */
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const inner of some) await walk(inner, `${prefix}${entry.name}/`);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return { files, left };
}
