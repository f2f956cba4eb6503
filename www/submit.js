// The form that makes a job: a program, what it gets, how often it runs.

import * as api from "./api.js";
import { buying } from "./buying.js";
import { h, renew, replace, setHidden, setText } from "./dom.js";
import { MOST as MOST_FILES, chosen, dropZone, takeDrops } from "./drop.js";
import { count, plural, size } from "./format.js";
import { limits } from "./limits.js";
import { requiring } from "./requiring.js";
import { errorText } from "./text.js";
import { setToken, tokenForm } from "./token.js";
import { pathFault, programFault, splitWords } from "./words.js";

/** @import { Child } from "./dom.js" */
/** @import { Dropped } from "./drop.js" */
/** @import { View } from "./live.js" */

/** Units of one job at most, as the gateway's bounds have it. */
const MOST_UNITS = 1_000_000;

/** @returns {View} */
export function submitView() {
  /** @type {File | null} */
  let program = null;
  /** @type {File | null} */
  let stdinFile = null;
  /** @type {(Dropped & { key: number })[]} */
  let files = [];
  let serial = 0;
  /** @type {AbortController | null} */
  let sending = null;

  const programLine = h("div", { class: "chosen", hidden: true });
  const programWrong = h("p", { class: "fault", id: "program-fault", role: "alert" });
  const programZone = dropZone({
    id: "program", title: "Drop a .wasm here, or choose one", accept: ".wasm,application/wasm",
    hint: "A WASI preview 1 command: any language, compiled for wasm32-wasip1.",
    onFiles: ([first], left) => (first ? takeProgram(first.file, left) : setText(programWrong, left)),
  });

  const name = h("input", { id: "job-name", type: "text", maxlength: "120", placeholder: "As the program" });
  const args = h("input", { id: "job-arguments", type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-describedby": "arguments-hint arguments-shown" });
  const argsShown = h("p", { class: "words-shown", id: "arguments-shown" });
  const stdinText = h("textarea", { id: "job-stdin", rows: "4", spellcheck: "false", "aria-describedby": "stdin-hint" });
  const stdinLine = h("div", { class: "chosen", hidden: true });
  const stdinInput = h("input", { id: "stdin-file", type: "file", class: "sr-only" });
  const stdinPart = h("div", { class: "field takes-drop" },
    h("label", { for: "job-stdin" }, "Standard input"), stdinText, stdinLine,
    h("p", { class: "hint", id: "stdin-hint" }, "Type it, or ", stdinInput, h("label", { for: "stdin-file", class: "as-link" }, "take it from a file"), ", or drop a file on the box."));

  const fileList = h("ul", { class: "chosen-files" });
  const filesWrong = h("p", { class: "fault", role: "alert" });
  const filesZone = dropZone({
    id: "files", title: "Drop files or folders here, or choose", hint: "The program finds them under / by these names.", multiple: true,
    onFiles: addFiles,
  });

  const sweep = h("input", { id: "sweep", type: "checkbox" });
  const sweepFirst = h("input", { id: "sweep-first", type: "number", min: "0", step: "1", value: "1", inputmode: "numeric" });
  const sweepCount = h("input", { id: "sweep-count", type: "number", min: "1", max: String(MOST_UNITS), step: "1", value: "100", inputmode: "numeric" });
  const sweepFields = h("div", { class: "pair", hidden: true },
    h("div", { class: "field" }, h("label", { for: "sweep-first" }, "First number"), sweepFirst),
    h("div", { class: "field" }, h("label", { for: "sweep-count" }, "How many"), sweepCount));
  const sweepHint = h("p", { class: "hint" });
  const bounds = limits();
  const places = buying();
  const nodes = requiring();

  const button = h("button", { type: "submit", class: "button primary big" }, "Submit");
  const stop = h("button", { type: "button", class: "button", hidden: true }, "Stop sending");
  const meter = h("progress", { max: "1", value: "0", hidden: true, "aria-label": "Sending" });
  const progress = h("p", { class: "soft small", role: "status" });
  const fault = h("div", { role: "alert" });
  const tokenPlace = h("div", { hidden: true });

  const summary = h("dl", { class: "sum" });
  const asked = h("div", { class: "asked" },
    part("The program", programZone.element, programLine, programWrong,
      h("div", { class: "field" }, h("label", { for: "job-name" }, "Name of the job ", h("span", { class: "soft" }, "(optional)")), name)),
    part("What it gets",
      h("div", { class: "field" }, h("label", { for: "job-arguments" }, "Arguments"), args,
        h("p", { class: "hint", id: "arguments-hint" }, "As on a command line: blanks part them, quotes hold together."), argsShown),
      stdinPart,
      h("div", { class: "field" }, h("p", { class: "label" }, "Files"), filesZone.element, fileList, filesWrong)),
    part("How often",
      h("label", { class: "check" }, sweep, "Run it many times, once for each number of a range"), sweepFields, sweepHint),
    h("details", { class: "card pad" }, h("summary", null, "Limits, retries and environment"), bounds.element),
    h("details", { class: "card pad" }, h("summary", null, "What a node must have"), nodes.element),
    h("details", { class: "card pad" }, h("summary", null, "Buy places"), places.element));
  const form = h("form", { class: "submit", novalidate: true, autocomplete: "off" }, asked,
    h("section", { class: "card pad send", "aria-label": "What will be submitted" },
      summary, fault, h("div", { class: "row" }, button, stop), meter, progress));
  const element = h("div", { class: "page" },
    h("div", null, h("h1", null, "Submit a program"), h("p", { class: "soft" }, "It runs on nodes of this swarm, closed in, and what it prints and writes comes back.")), tokenPlace, form);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  stop.addEventListener("click", () => sending?.abort());
  args.addEventListener("input", showArguments);
  sweep.addEventListener("change", showSweep);
  sweepCount.addEventListener("input", showSweep);
  sweepFirst.addEventListener("input", showSweep);
  stdinInput.addEventListener("change", () => {
    takeStdin(stdinInput.files?.[0] ?? null);
    stdinInput.value = "";
  });
  takeDrops(stdinPart, (transfer) => takeStdin(transfer.files[0] ?? null));
  // A file that misses its zone would make the browser leave the page.
  takeDrops(element, ({ files: dropped }) => {
    for (const file of dropped) {
      if (!program && file.name.endsWith(".wasm")) takeProgram(file, "");
      else addFiles([{ path: file.name, file }], "");
    }
  });
  form.addEventListener("input", showSummary);
  showSweep();

  function showSummary() {
    // The fault may be mended by now; sending shows it again if it is not.
    if (!sending) replace(fault);
    /** @type {[label: string, words: string][]} */
    const rows = [
      ["Program", program ? `${program.name}, ${size(program.size)}` : "none yet"],
      ["Arguments", count(splitWords(args.value).words.length)],
      ["Standard input", stdinFile ? size(stdinFile.size) : stdinText.value ? size(new Blob([stdinText.value]).size) : "empty"],
      ["Files", files.length ? `${count(files.length)}, ${size(files.reduce((sum, one) => sum + one.file.size, 0))}` : "none"],
      ["A node must have", nodes.words()],
      ["Places", places.words()],
      ["Units", count(sweep.checked ? Math.max(0, Number(sweepCount.value) || 0) : 1)],
    ];
    renew(summary, rows, ([label]) => label, ([label]) => {
      const value = h("dd", { class: "number" });
      return { element: h("div", { class: "sum-row" }, h("dt", null, label), value), update: (/** @type {string[]} */ [, words]) => setText(value, words) };
    });
  }

  /** @param {File} file @param {string} left */
  async function takeProgram(file, left) {
    const head = new Uint8Array(await file.slice(0, 512).arrayBuffer().catch(() => new ArrayBuffer(0)));
    const wrong = programFault(head, file.size);
    setText(programWrong, wrong ? `${file.name} cannot run here. ${wrong}` : left);
    if (wrong) return programZone.input.setAttribute("aria-invalid", "true");
    programZone.input.removeAttribute("aria-invalid");
    program = file;
    showSummary();
    chosen(programLine, file, programZone.element, () => {
      program = null;
      showSummary();
      programZone.input.focus();
    });
  }

  /** @param {File | null} file */
  function takeStdin(file) {
    if (!file) return;
    stdinFile = file;
    showSummary();
    chosen(stdinLine, file, stdinText, () => {
      stdinFile = null;
      showSummary();
      stdinText.focus();
    });
  }

  /** @param {Dropped[]} added @param {string} left */
  function addFiles(added, left) {
    for (const { path, file } of added) {
      const there = files.find((one) => one.path === path);
      if (there) there.file = file;
      else files.push({ key: (serial += 1), path, file });
    }
    setText(filesWrong, left || fileFault() || "");
    showFiles();
  }

  function showFiles() {
    showSummary();
    renew(fileList, files, (one) => one.key, (one) => {
      const path = h("input", { type: "text", spellcheck: "false", "aria-label": "Name that the program sees", value: one.path });
      const length = h("span", { class: "soft small number" });
      const remove = h("button", { type: "button", class: "button slim", "aria-label": `Remove ${one.path}` }, "Remove");
      path.addEventListener("input", () => {
        one.path = path.value.trim();
        setText(filesWrong, fileFault() ?? "");
      });
      remove.addEventListener("click", () => {
        files = files.filter((other) => other !== one);
        setText(filesWrong, fileFault() ?? "");
        showFiles();
        (fileList.querySelector("input") ?? filesZone.input).focus();
      });
      return { element: h("li", null, path, length, remove), update: () => setText(length, size(one.file.size)) };
    });
  }

  function fileFault() {
    if (files.length > MOST_FILES) return `A job takes ${count(MOST_FILES)} files, and these are ${count(files.length)}. Put them into an archive that the program unpacks.`;
    const seen = new Set();
    for (const { path } of files) {
      const wrong = pathFault(path);
      if (wrong) return `“${path}”: ${wrong}`;
      if (seen.has(path)) return `Two files are called “${path}”; give one another name.`;
      seen.add(path);
    }
    return null;
  }

  function showArguments() {
    const { words, fault: wrong } = splitWords(args.value);
    replace(argsShown, words.length > 1 || wrong ? words.map((word) => h("code", null, word || " ")) : [], wrong ? h("span", { class: "fault" }, wrong) : null);
    if (wrong) args.setAttribute("aria-invalid", "true");
    else args.removeAttribute("aria-invalid");
    showSweep();
  }

  function showSweep() {
    setHidden(sweepFields, !sweep.checked);
    const [first, n] = [Number(sweepFirst.value), Number(sweepCount.value)];
    const holds = args.value.includes("{}");
    const range = n > 0 ? `${first}${n > 1 ? ` to ${first + n - 1}` : ""}` : "";
    setText(sweepHint, sweep.checked
      ? `${plural(n || 0, "unit")}. ${holds ? `{} in the arguments becomes ${range}.` : "Write {} where the number belongs in the arguments; without it, all units do the same."}`
      : "One unit, run once.");
    showSummary();
  }

  /**
   * The first thing that is wrong: `[words, element to go to]`, or null.
   * @returns {[words: string, at: HTMLElement | null] | null}
   */
  function wrongs() {
    if (!program) return ["Choose a program first.", programZone.input];
    const { fault: quote } = splitWords(args.value);
    if (quote) return [quote, args];
    const file = fileFault();
    if (file) return [file, fileList.querySelector("input")];
    if (sweep.checked) {
      const [first, n] = [Number(sweepFirst.value), Number(sweepCount.value)];
      if (!Number.isSafeInteger(first) || first < 0 || sweepFirst.value === "") return ["The first number has to be a whole number from 0 on.", sweepFirst];
      if (!Number.isInteger(n) || n < 1 || n > MOST_UNITS) return [`A job has 1 to ${count(MOST_UNITS)} units.`, sweepCount];
    }
    const both = places.values().find && nodes.asks();
    return bounds.wrong() ?? nodes.wrong() ?? places.wrong()
      ?? (both ? ["Requirements are not heeded where places are bought. Leave out one of the two.", nodes.element.querySelector("input")] : null);
  }

  async function send() {
    if (sending) return;
    sending = new AbortController();
    replace(fault);
    replace(tokenPlace);
    // Somebody quick presses Submit while the browser still reads the dropped files.
    await Promise.allSettled([programZone.settled(), filesZone.settled()]);
    const wrong = wrongs();
    if (!program || wrong) {
      sending = null;
      replace(fault, h("p", { class: "note error" }, wrong?.[0]));
      wrong?.[1]?.closest("details")?.setAttribute("open", "");
      return wrong?.[1]?.focus();
    }
    busy(true);
    try {
      const job = await hand(program, sending.signal);
      location.hash = `#/jobs/${encodeURIComponent(job.id)}`;
    } catch (error) {
      setText(progress, "");
      if (api.isAbort(error)) setText(progress, "Stopped. Nothing was submitted.");
      else if (!(error instanceof api.ApiError)) replace(fault, h("p", { class: "note error" }, h("strong", null, "The job was not submitted"), errorText(error)));
      else if (error.needsToken) askToken();
      else replace(fault, h("p", { class: "note error" }, h("strong", null, error.title || "The job was not submitted"), error.detail || (error.title ? "" : error.message)));
    }
    sending = null;
    busy(false);
  }

  /**
   * Uploads what is needed, each content once, then submits.
   * @param {File} program
   * @param {AbortSignal} signal
   */
  async function hand(program, signal) {
    const stdin = stdinFile ?? (stdinText.value ? new Blob([stdinText.value]) : null);
    /** @type {{ what: string, content: Blob }[]} */
    const all = [
      { what: "the program", content: program },
      ...(stdin ? [{ what: "standard input", content: stdin }] : []),
      ...files.map((one) => ({ what: one.path, content: one.file })),
    ];
    const total = all.reduce((sum, { content }) => sum + content.size, 0) || 1;
    let before = 0;
    /** @type {string[]} */
    const ids = [];
    for (const { what, content } of all) {
      setText(progress, `Sending ${what} (${size(content.size)})`);
      ids.push(await api.upload(content, (sent) => (meter.value = (before + sent) / total), signal));
      before += content.size;
      meter.value = before / total;
    }
    setText(progress, "Submitting");
    const [programId, ...rest] = ids;
    const stdinId = stdin ? rest.shift() : undefined;
    /** @type {Api.JobRequest} */
    const spec = {
      name: name.value.trim() || [...program.name.replace(/\.wasm$/, "")].slice(0, 50).join(""),
      program: programId,
      arguments: splitWords(args.value).words,
      ...(stdinId && { stdin: stdinId }),
      ...(files.length && { files: files.map((one, i) => ({ path: one.path, blob: rest[i] })) }),
      ...(sweep.checked && { sweep: { first: Number(sweepFirst.value), count: Number(sweepCount.value) } }),
      ...bounds.values(),
      ...nodes.values(),
      ...places.values(),
    };
    return api.submit(spec, freshKey(), signal);
  }

  function askToken() {
    replace(tokenPlace, tokenForm({
      rejected: true,
      action: "Submit with this token",
      onToken(value) {
        setToken(value);
        tokenPlace.hidden = true;
        send();
      },
    }));
    tokenPlace.hidden = false;
    tokenPlace.querySelector("input")?.focus();
  }

  /** @param {boolean} on */
  function busy(on) {
    button.disabled = on;
    setHidden(stop, !on);
    setHidden(meter, !on);
    meter.value = 0;
  }

  return { title: "Submit", element, needsToken: true, close: () => sending?.abort() };
}

/** @param {string} title @param {...Child} children */
function part(title, ...children) {
  return h("fieldset", { class: "card pad part" }, h("legend", { class: "sr-only" }, title), h("h2", { "aria-hidden": "true" }, title), ...children);
}

/** crypto.randomUUID needs https; this does not. */
function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
