// Jobs of this tab: what its node is asked, and what it answers.

/** @import { Answer, OfJobs, OwnJob, OwnResult, Wanted } from "./messages.js" */
/** @import { Session } from "./session.js" */

/** Begins the keys of `localStorage` that tell of jobs; the rest is the name of the tab that left them. */
const LEFT = "manyhands-jobs-";

/** Whether jobs are left of a tab that was open before. A browser that may not tell has none. */
export function hasLeft() {
  try {
    return Object.keys(localStorage).some((key) => key.startsWith(LEFT));
  } catch {
    return false;
  }
}

/** @param {string} name @param {boolean} left */
function leave(name, left) {
  try {
    if (left) localStorage.setItem(LEFT + name, "1");
    else localStorage.removeItem(LEFT + name);
  } catch {
    // Then they are found when the next job is run.
  }
}

/** Fires "change" when the jobs changed. */
export class Submitter extends EventTarget {
  /** The newest first. @type {OwnJob[]} */
  jobs = [];
  /** Micro-credits on this tab's account; `null` until they are known. @type {number | null} */
  balance = null;
  #session;
  /** @type {Map<number, (answer: Answer) => void>} */
  #asked = new Map();
  #n = 0;

  /** @param {Session} session of a Worker that submits */
  constructor(session) {
    super();
    this.#session = session;
    session.addEventListener("heard", (event) => this.#heard(/** @type {CustomEvent} */ (event).detail));
    session.addEventListener("ended", () => this.#ended());
  }

  /**
   * Submits a job; its id. An Error says in words why nobody takes it.
   * @param {Wanted} job @param {Uint8Array} program @param {Uint8Array} input
   */
  async submit(job, program, input) {
    return (await this.#ask((n) => ({ type: "submit", n, job, program, input }))).accepted ?? "";
  }

  /** @param {string} job */
  cancel(job) {
    this.#session.say({ type: "cancel", job });
  }

  /** Forgets a job that has ended, with its results. @param {string} job */
  forget(job) {
    this.#session.say({ type: "forget", job });
  }

  /**
   * Results of `limit` units at most, from this one on, with `most` bytes of each content.
   * @param {string} job @param {number} from @param {number} [limit] @param {number} [most]
   * @returns {Promise<OwnResult[]>}
   */
  async results(job, from, limit = 100, most = 0xffff_ffff) {
    return (await this.#ask((n) => ({ type: "results", n, job, from, limit, most }))).results ?? [];
  }

  /** Takes the credit of an invite. @param {string} code */
  async redeem(code) {
    await this.#ask((n) => ({ type: "redeem", n, code }));
  }

  /** @param {(n: number) => OfJobs} message @returns {Promise<Answer>} */
  #ask(message) {
    const n = (this.#n += 1);
    return new Promise((yes, no) => {
      this.#asked.set(n, (answer) => (answer.refused === undefined ? yes(answer) : no(new Error(answer.refused))));
      if (!this.#session.say(message(n))) this.#refuse(n);
    });
  }

  /** @param {Answer | { type: "jobs", jobs: OwnJob[], balance: number | null }} message */
  #heard(message) {
    if (message.type === "answer") {
      this.#asked.get(message.n)?.(message);
      this.#asked.delete(message.n);
      return;
    }
    this.jobs = message.jobs;
    this.balance = message.balance;
    if (this.#session.name) leave(this.#session.name, this.jobs.length > 0);
    this.dispatchEvent(new Event("change"));
  }

  #ended() {
    for (const n of [...this.#asked.keys()]) this.#refuse(n);
  }

  /** @param {number} n */
  #refuse(n) {
    this.#heard({ type: "answer", n, refused: "The node in this tab does not run just now. Try again in a moment." });
  }
}
