// One end of a data channel for `manyhands bench link`, which carries words between two of them.

import { Peers } from "./peers.js";

/** @import { Figures, OfEnd, ToEnd } from "./messages.js" */

export class End {
  /** Settles with the end's id. @type {Promise<string>} */
  id;
  /** Settles when the trial is over; of the end that leads, with its figures. @type {Promise<Figures>} */
  figures;
  connected = false;
  /** Words for the other end, in digits. @type {string[]} */
  #words = [];
  #worker = new Worker("/link-worker.js", { type: "module", name: "manyhands-link" });

  constructor() {
    const peers = new Peers((message, transfer = []) => this.#worker.postMessage(message, transfer));
    /** @type {{ id(id: string): void, noId(why: Error): void, figures(figures: Figures): void, none(why: Error): void }} */
    const settle = { id() {}, noId() {}, figures() {}, none() {} };
    this.id = new Promise((yes, no) => Object.assign(settle, { id: yes, noId: no }));
    this.figures = new Promise((yes, no) => Object.assign(settle, { figures: yes, none: no }));
    // Nobody may wait for it yet.
    this.figures.catch(() => {});
    this.#worker.onmessage = (/** @type {MessageEvent<OfEnd>} */ { data }) => {
      switch (data.type) {
        case "id":
          return settle.id(data.id);
        case "words":
          this.#words.push([...data.words].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
          return;
        case "connected":
          this.connected = true;
          return;
        case "figures":
          return settle.figures(data);
        case "failed":
          settle.noId(new Error(data.why));
          return settle.none(new Error(data.why));
        default:
          return peers.heard(data);
      }
    };
    this.#worker.onerror = (event) => {
      settle.noId(new Error(event.message));
      settle.none(new Error(event.message));
    };
  }

  /** @param {string} peer the other's id @param {boolean} offers @param {boolean} leads */
  open(peer, offers, leads) {
    this.#tell({ type: "open", peer, offers, leads });
  }

  /** Words since the last call, and whether the two are connected. */
  said() {
    const words = this.#words;
    this.#words = [];
    return { words, connected: this.connected };
  }

  /** Takes words of the other end. @param {string[]} all */
  take(all) {
    for (const digits of all) this.#tell({ type: "take", words: Uint8Array.from(digits.match(/../g) ?? [], (byte) => parseInt(byte, 16)) });
  }

  /** Ends it, and its connection. */
  close() {
    this.#worker.terminate();
  }

  /** @param {ToEnd} message */
  #tell(message) {
    this.#worker.postMessage(message);
  }
}
