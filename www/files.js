// Files of this node that other nodes keep: put one, see who has it, publish, fetch, remove.

import * as api from "./api.js";
import { copyButton, h, renew, replace, setHidden, setText } from "./dom.js";
import { chosen, dropZone, takeDrops } from "./drop.js";
import { entry, form, sure } from "./form.js";
import { ago, capital, count, exactTime, moment, plural, shortNode, size } from "./format.js";
import { credits, microOf } from "./money.js";
import { badge, empty } from "./progress.js";
import { save } from "./results.js";
import { errorText } from "./text.js";

/** @import { Row } from "./dom.js" */
/** @import { Field } from "./form.js" */
/** @import { View } from "./live.js" */

/** Copies of a file, as the gateway has it. */
const [USUAL_COPIES, MOST_COPIES] = [3, 8];

/** @returns {View} */
export function filesView() {
  const summary = h("p", { class: "soft", role: "status" });
  const put = putPart(() => view.nudge?.());
  const list = h("ul", { class: "kept-files" });
  const own = h("h2", { id: "own-files", tabindex: "-1" }, "Put here");
  const none = empty("No file yet",
    h("p", null, "A file that is put here is kept by other nodes, found by its content id or by a name, and encrypted before it leaves if you wish. Choose one above, or on the command line:"),
    h("code", { class: "command" }, "manyhands files put FILE ", h("span", { class: "whole-word" }, "--copies 3")));
  const recipient = h("div", { class: "copyable" });
  const reading = h("section", { class: "card pad", "aria-labelledby": "reading", hidden: true },
    h("h2", { id: "reading" }, "Encrypted for this node"), h("p", { class: "soft" }, "Whoever encrypts a file for this recipient lets this node read it."), recipient);
  const kept = h("p", { class: "soft" });
  const element = h("div", { class: "page" },
    h("div", { class: "head" }, h("div", null, h("h1", null, "Files"), h("p", { class: "soft" }, "Files of this node, and which nodes keep them.")), summary),
    put.element,
    h("section", { "aria-labelledby": "own-files" }, own, list, none),
    h("section", { "aria-labelledby": "kept-here" }, h("h2", { id: "kept-here" }, "Kept here for others"), kept), reading);
  list.hidden = none.hidden = true;
  // One that misses its zone would make the browser leave the page.
  takeDrops(element, ({ files: [dropped] }) => dropped && put.take(dropped, ""));

  /** Where the focus was is no more. */
  function gone() {
    own.focus();
    view.nudge?.();
  }

  let still = false;
  /** @type {View} */
  const view = {
    title: "Files",
    element,
    // Nobody tells when a file changes; while nothing is on its way there is little to ask for.
    resting: () => still,
    async load(signal) {
      still = false;
      const answer = await api.files(signal);
      const placing = answer.files.filter(({ state }) => state === "placing").length;
      setText(summary, [plural(answer.files.length, "file"), placing && `${count(placing)} not kept by enough nodes yet`].filter(Boolean).join(", "));
      setHidden(list, answer.files.length === 0);
      setHidden(none, answer.files.length > 0);
      renew(list, [...answer.files].reverse(), (file) => file.id, (file) => fileCard(file, gone));
      setText(kept, keptWords(answer.kept));
      setHidden(reading, !answer.recipient);
      if (answer.recipient && recipient.dataset.shown !== answer.recipient) {
        recipient.dataset.shown = answer.recipient;
        replace(recipient, h("span", null, "Recipient"), h("code", { class: "command" }, answer.recipient), copyButton(answer.recipient));
      }
      still = placing === 0;
    },
    close: put.close,
  };
  return view;
}

/** @param {Api.KeptHere} kept */
function keptWords({ files, bytes, given }) {
  if (!given) return "Nothing: this node gives no space for files of others.";
  return `${plural(files, "file")}, ${size(bytes)} of the ${size(given)} that it gives.`;
}

/** @param {() => void} done */
function putPart(done) {
  /** @type {File | null} */
  let file = null;
  /** @type {AbortController | null} */
  let sending = null;
  const line = h("div", { class: "chosen", hidden: true });
  const fault = h("p", { class: "fault", id: "put-file-fault", role: "alert" });
  const zone = dropZone({
    id: "put-file", title: "Drop a file here, or choose one", hint: "It is cut into chunks of 4 MiB, which other nodes fetch from here.",
    onFiles: ([first], left) => (first ? take(first.file, left) : setText(fault, left)),
  });
  /** @param {File} taken @param {string} left */
  function take(taken, left) {
    what.blame("");
    setText(fault, left);
    file = taken;
    chosen(line, taken, zone.element, () => {
      file = null;
      zone.input.focus();
    });
  }
  /** @type {Field<File>} */
  const what = {
    element: h("div", { class: "field" }, zone.element, line, fault),
    input: zone.input,
    read: () => file ?? new Error("Choose a file first."),
    blame(words) {
      setText(fault, words);
      if (words) zone.input.setAttribute("aria-invalid", "true");
      else zone.input.removeAttribute("aria-invalid");
    },
  };
  const copies = entry({
    id: "put-copies", label: "Copies", type: "number", min: "1", max: String(MOST_COPIES), step: "1", inputmode: "numeric", value: String(USUAL_COPIES), hint: `How many other nodes are to keep it, 1 to ${MOST_COPIES}.`,
    read({ value }) {
      const n = Number(value);
      return Number.isInteger(n) && n >= 1 && n <= MOST_COPIES ? n : new Error(`Copies are a whole number from 1 to ${MOST_COPIES}.`);
    },
  });
  const price = entry({
    id: "put-price", label: "At most", unit: "credits", inputmode: "decimal", hint: "What all copies may cost for two days; 0 asks for gifts alone. Empty: about a credit a copy for a GiB and a day.",
    /** @returns {number | null | Error} */
    read({ value }) {
      if (value.trim() === "") return null;
      return Number(value) === 0 ? 0 : microOf(value);
    },
  });
  const encrypt = entry({ id: "put-encrypt", label: "Encrypt it", type: "checkbox", hint: "With this node’s key, before it leaves. Its name stays readable, and without the key nobody can open it.", read: ({ checked }) => checked });
  const meter = h("progress", { max: "1", value: "0", hidden: true, "aria-label": "Sending" });
  const stop = h("button", { type: "button", class: "button slim", hidden: true }, "Stop sending");
  stop.addEventListener("click", () => sending?.abort());
  const made = form({
    label: "Put a file", entries: { file: what, copies, max_price: price, encrypt }, action: "Put it", busy: "Sending…", more: [meter, stop],
    async send({ file: content, ...wishes }) {
      sending = new AbortController();
      meter.value = 0;
      setHidden(meter, false);
      setHidden(stop, false);
      try {
        await api.putFile(content, wishes, (sent, all) => (meter.value = sent / all), sending.signal);
        file = null;
        setHidden(line, true);
        setHidden(zone.element, false);
        done();
        return `${content.name} is put. Other nodes fetch it now.`;
      } catch (error) {
        if (api.isAbort(error)) return "Stopped. Nothing was put.";
        throw error;
      } finally {
        sending = null;
        setHidden(meter, true);
        setHidden(stop, true);
      }
    },
  });
  return {
    take,
    element: h("section", { class: "card pad", "aria-labelledby": "put-title" }, h("h2", { id: "put-title" }, "Put a file"), made),
    close: () => sending?.abort(),
  };
}

/** @param {Api.File} file @param {() => void} gone it was removed @returns {Row<Api.File>} */
function fileCard({ id, name }, gone) {
  const called = name || `${id.slice(0, 12)}…`;
  const heading = h("h3", { class: "long" }, called);
  const state = badge("placing");
  const facts = h("p", { class: "soft small" });
  const copies = h("p", { class: "number" });
  const reason = h("p", { class: "reason" });
  const keepers = h("ul", { class: "keepers", "aria-label": `Keepers of ${called}` });
  const lost = h("ul", { class: "keepers soft small", "aria-label": `Keepers of ${called} that went` });
  const published = h("p", null);
  const fault = h("p", { class: "fault", role: "alert" });
  const fetchIt = h("button", { type: "button", class: "button slim", "aria-label": `Download ${called}` }, "Download");
  const remove = h("button", { type: "button", class: "button danger slim", "aria-label": `Remove ${called}` }, "Remove");
  const naming = entry({
    id: `name-${id}`, label: "Name", maxlength: "200", spellcheck: "false", autocapitalize: "off", hint: "Found by it at every gateway of the swarm, as long as this one refreshes it.",
    read: ({ value }) => value.trim() || new Error("Write a name first."),
  });
  const publish = form({
    label: `Publish ${called}`, entries: { name: naming }, action: "Publish", busy: "Publishing…",
    async send({ name: chosenName }) {
      update(await api.nameFile(id, chosenName));
      naming.input.value = "";
      return "Published.";
    },
  });

  /** @param {HTMLButtonElement} button @param {string} busy @param {() => Promise<unknown>} action */
  async function act(button, busy, action) {
    const label = button.textContent;
    button.disabled = true;
    setText(button, busy);
    setText(fault, "");
    let well = true;
    try {
      await action();
    } catch (error) {
      setText(fault, errorText(error));
      well = false;
    }
    setText(button, label);
    button.disabled = false;
    return well;
  }
  // A link cannot carry the token.
  fetchIt.addEventListener("click", () => act(fetchIt, "Loading…", async () => save(await api.fileContent(id), name || id.slice(0, 12))));
  remove.addEventListener("click", async () => {
    const meant = await sure({
      title: "Remove this file?", words: `${called}: nobody need keep it any more, and its names are free. This cannot be taken back.`, no: "Keep it", yes: "Remove the file",
    });
    if (!meant) return remove.focus();
    if (await act(remove, "Removing…", () => api.removeFile(id))) gone();
  });

  /** @param {Api.File} file */
  function update(file) {
    state.update(file.state);
    setText(facts, [size(file.len), file.encrypted ? "encrypted" : "not encrypted", `put ${ago(file.put_ms)}`].join(" · "));
    facts.title = exactTime(file.put_ms);
    const cost = file.held || file.paid ? `cost ${credits(file.paid)} credits until now, ${credits(file.held)} put aside` : null;
    setText(copies, [`${count(file.kept)} of ${plural(file.copies, "copy", "copies")} kept`, cost].filter(Boolean).join(" · "));
    const why = file.reason || (file.state === "placing" ? "it looks for nodes that keep it; in a swarm that has just begun that takes about a minute" : "");
    setText(reason, why && `${capital(why)}.`);
    setHidden(reason, !why);
    reason.className = file.state === "kept" ? "soft" : "reason";
    renew(keepers, file.keepers, (keeper) => keeper.node, keeperLine(file));
    setHidden(keepers, file.keepers.length === 0);
    renew(lost, file.lost.map((one, i) => ({ ...one, key: `${i} ${one.node}` })), ({ key }) => key, lostLine);
    setHidden(lost, file.lost.length === 0);
    setText(published, file.names.length ? `Published as ${file.names.map((one) => `“${one}”`).join(", ")}` : "");
    setHidden(published, file.names.length === 0);
  }

  return {
    element: h("li", { class: "card pad" },
      h("div", { class: "head" }, h("div", { class: "titles" }, heading, facts), h("div", { class: "row" }, state.element, fetchIt, remove)),
      copies, reason, keepers, lost, published, fault,
      h("details", null, h("summary", null, "Content id, and publish a name"),
        h("div", { class: "copyable" }, h("span", null, "Content id"), h("code", { class: "command" }, id), copyButton(id)), publish)),
    update,
  };
}

/** @param {Api.File} file @returns {() => Row<Api.Keeper>} */
const keeperLine = (file) => () => {
  const name = h("span", { class: "name" });
  const words = h("span", { class: "soft small" });
  return {
    element: h("li", null, name, words),
    update(keeper) {
      setText(name, keeper.name || keeper.short || shortNode(keeper.node));
      name.title = keeper.node;
      const until = moment(keeper.until_ms);
      setText(words, [
        keeper.kept ? "has all of it" : `has ${count(keeper.chunks)} of ${plural(file.chunks, "chunk")}`,
        until && keeper.until_ms ? `until ${exactTime(until)}` : null,
        keeper.price === null || keeper.price === undefined ? "for nothing" : `for ${count(keeper.price)} µcr for 10⁹ byte-seconds`,
      ].filter(Boolean).join(" · "));
    },
  };
};

/** @returns {Row<Api.Lost>} */
function lostLine() {
  const words = h("span");
  return { element: h("li", null, words), update: ({ name, short, why }) => setText(words, `${name || short} went: ${why}`) };
}
