// Jobs of this tab: what its node is asked, and what it answers.

/** @import { Answer, OfJobs, OwnJob, OwnResult, Wanted } from "./messages.js" */
/** @import { Session } from "./session.js" */

/** Phases in which a node lives. @type {readonly string[]} */
const LIVES = ["starting", "connecting", "connected", "offline", "rejected"];
/** Whether a tab of this browser left jobs, in `localStorage`. */
const LEFT = "manyhands-jobs";

/** Whether jobs are left of a tab that was open before. A browser that may not tell has none. */
export function hasLeft() {
  try {
    return localStorage.getItem(LEFT) !== null;
  } catch {
    return false;
  }
}

/** @param {boolean} left */
function leave(left) {
  try {
    if (left) localStorage.setItem(LEFT, "1");
    else localStorage.removeItem(LEFT);
  } catch {
    // Then they are found when the next job is run.
  }
}

/** Whether nothing of it is to be done any more. @param {OwnJob} job */
export const isOver = ({ state }) => state === "done" || state === "failed" || state === "cancelled";

/** Fires "change" when the jobs changed. */
export class Submitter extends EventTarget {
  /** The newest first. @type {OwnJob[]} */
  jobs = [];
  #session;
  /** @type {Map<number, (answer: Answer) => void>} */
  #asked = new Map();
  #n = 0;

  /** @param {Session} session of a Worker that submits */
  constructor(session) {
    super();
    this.#session = session;
    session.addEventListener("heard", (event) => this.#heard(/** @type {CustomEvent} */ (event).detail));
    session.addEventListener("change", () => LIVES.includes(session.phase) || this.#ended());
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

  /** Micro-credits of this tab. No bank, no answer. @returns {Promise<number>} */
  async balance() {
    return (await this.#ask((n) => ({ type: "balance", n }))).balance ?? 0;
  }

  /** @param {(n: number) => OfJobs} message @returns {Promise<Answer>} */
  #ask(message) {
    const n = (this.#n += 1);
    return new Promise((yes, no) => {
      this.#asked.set(n, (answer) => (answer.refused === undefined ? yes(answer) : no(new Error(answer.refused))));
      this.#session.say(message(n));
    });
  }

  /** @param {Answer | { type: "jobs", jobs: OwnJob[] }} message */
  #heard(message) {
    if (message.type === "answer") {
      this.#asked.get(message.n)?.(message);
      this.#asked.delete(message.n);
      return;
    }
    this.jobs = message.jobs;
    leave(this.jobs.length > 0);
    this.dispatchEvent(new Event("change"));
  }

  #ended() {
    const asked = [...this.#asked];
    this.#asked.clear();
    for (const [n, answer] of asked) answer({ type: "answer", n, refused: "The node in this tab ended before it answered." });
  }
}
