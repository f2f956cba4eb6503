// Messages between a page, its node's Worker and the slots' Workers, as types. Nothing loads this file: the
// modules that send and read messages take their types from it. On the Rust side they are in
// `web/driver/src/status.rs`, `web/node/src/workers.rs` and `web/task/src/say.rs`.

/**
 * The donor's settings by their names, as in `policy.toml`. The node checks them.
 * @typedef {Record<string, unknown>} Policy
 */

/**
 * A setting that does not count, in words.
 * @typedef {{ key: string, message: string }} Fault
 */

/**
 * The page's knowledge of its computer: `charge_pct` from 0 to 100; `quiet_since` in milliseconds since
 * 1970, `Infinity` while somebody uses it.
 * @typedef {{ on_battery?: boolean, charge_pct?: number, quiet_since?: number }} Knows
 */

/**
 * How a node is started. `speed`: fuel a second of a slot, measured if it is missing. `channels`: the page makes data
 * channels and hands them over (`peers.js`).
 * @typedef {{ gateway: string, slots: number, name?: string, invite?: string, policy: Policy, knows: Knows, speed?: number, channels?: boolean }} Options
 */

/**
 * State that is kept for the next life of a tab (`left.js`). `save` takes records and blobs, each an id with its
 * bytes, or without them if it is to be removed; `done` is told when they are durable, or why they are not.
 * @typedef {[id: Uint8Array, bytes: Uint8Array]} Entry
 * @typedef {[id: Uint8Array, bytes: Uint8Array | undefined]} Change
 * @typedef {{ name: string, key: Uint8Array, records: Entry[], blobs: Entry[], save: (records: Change[], blobs: Change[], done: (why?: string) => void) => void }} Left
 */

/**
 * Page → node's Worker. `last`: the name under which this tab left things before. `patience`: milliseconds. `rtc`: the
 * channel, the SDP or a candidate of an end of a data channel; without any of them it has failed.
 * @typedef {{ type: "start", last: string | null } & Options
 *   | { type: "slots", n: number }
 *   | { type: "policy", policy: Policy }
 *   | { type: "knows", knows: Knows }
 *   | { type: "check", n: number, policy: Policy }
 *   | { type: "rtc", session: string, channel?: RTCDataChannel, sdp?: string, candidate?: string }
 *   | { type: "stop", patience: number }
 *   | OfJobs} ToNode
 */

/**
 * A job that this tab submits: `units` with numbers from `first` on in place of `{}` among the arguments; without them
 * it has one. `max_price`, `max_price_job`: micro-credits that a unit and the job may cost, for which `fuel_limit` is
 * needed.
 * @typedef {{ name: string, arguments: string[], units?: number, first?: number, max_price?: number, max_price_job?: number, min_speed?: number, fuel_limit?: number }} Wanted
 */

/**
 * Page → a node that submits (`submitting-worker.js`). `n` comes back with the answer. `limit`: units; `most`: bytes of each
 * content.
 * @typedef {{ type: "submit", n: number, job: Wanted, program: Uint8Array, input: Uint8Array }
 *   | { type: "cancel", job: string }
 *   | { type: "forget", job: string }
 *   | { type: "results", n: number, job: string, from: number, limit: number, most: number }
 *   | { type: "redeem", n: number, code: string }} OfJobs
 */

/**
 * A job of this tab. `nodes`: how many have done units of it. `paid`: micro-credits, if its places are bought.
 * @typedef {{
 *   id: string, name: string, state: "waiting" | "running" | "done" | "failed" | "cancelled", reason: string,
 *   units: number, placed: number, done: number, failed: number, nodes: number, cpu_us: number, paid: number | null,
 * }} OwnJob
 */

/**
 * A unit's result. `node`: who ran it. Content is cut where it was asked to be; what this tab has lost is `null`.
 * @typedef {{
 *   index: number, ok: boolean, end: string, node: string, stdout: Uint8Array | null, stdout_len: number,
 *   stderr: Uint8Array | null, files: [path: string, len: number, bytes: Uint8Array | null][],
 * }} OwnResult
 */

/**
 * The answer to a message of `OfJobs`.
 * @typedef {{ type: "answer", n: number, accepted?: string, refused?: string, results?: OwnResult[] }} Answer
 */

/**
 * A unit that runs in this tab.
 * @typedef {{ job: string, name: string, index: number, for_us: number }} Current
 * @typedef {{ slots: number, busy: number, queued: number, units_done: number, units_failed: number, cpu_us: number, current: Current[], idle_reason: string | null }} Work
 */

/**
 * Sales of a tab, in micro-credits; `balance` is `null` until it is known.
 * @typedef {{ cost: number, listed: boolean, balance: number | null }} Sales
 */

/**
 * Effect of the donor's policy now. `wait_s`: seconds until it works again, if time alone brings that about.
 * @typedef {{ works: boolean, reasons: Api.Why[], wait_s: number | null, unknown: string[], faults: Fault[] }} PolicyNow
 */

/**
 * @typedef {{ type: "status", state: "connecting" | "connected" | "offline" | "rejected", detail: string, node: string, short: string, gateway: string, work: Work, sales: Sales | null }} Status
 */

/**
 * Node's Worker → page. `rtc_…`: what to do with an end of a data channel; `sdp` and `candidates` are the peer's, `stun`
 * says where this tab is seen. `loaded`: the node begins now; the tab's state is kept under this name, if at all.
 * @typedef {Status
 *   | { type: "rtc_open", session: string, offers: boolean, stun?: string }
 *   | { type: "rtc_remote", session: string, sdp: string }
 *   | { type: "rtc_try", session: string, candidates: string[] }
 *   | { type: "rtc_close", session: string }
 *   | { type: "policy" } & PolicyNow
 *   | { type: "loaded", name: string | null }
 *   | { type: "checked", n: number, faults: Fault[] }
 *   | Answer
 *   | { type: "jobs", jobs: OwnJob[], balance: number | null }
 *   | { type: "stopped" }
 *   | { type: "fatal", message: string }} FromNode
 */

/**
 * Node's Worker → a slot's. `form`, `about` and `tasks` are MessagePack (`web/driver/src/slot.rs`).
 * @typedef {{ type: "prepare", module: number, program: Uint8Array, form: Uint8Array }
 *   | { type: "learn", module: number, compiled: WebAssembly.Module, about: Uint8Array }
 *   | { type: "forget", module: number }
 *   | { type: "run", module: number, tasks: Uint8Array }
 *   | { type: "snapshot", run: number, stop: boolean }
 *   | { type: "pause" | "resume" | "kill" | "time_up", run: number }
 *   | { type: "share", percent: number }} ToSlot
 */

/**
 * A program that was compiled, that runs nowhere, or that this browser cannot run.
 * @typedef {{ compiled: WebAssembly.Module, about: Uint8Array, immobile?: string } | { refused: string } | { broken: string }} Prepared
 */

/**
 * A slot's Worker → the node's.
 * @typedef {{ type: "ready" | "spent" }
 *   | { type: "prepared", module: number } & Prepared
 *   | { type: "answers", answers: Uint8Array }
 *   | { type: "gone", runs: number[] }
 *   | { type: "resumed", run: number }
 *   | { type: "snapshot", run: number, shot: Uint8Array, sealed: Uint8Array, stopped: boolean }
 *   | { type: "failed", error: string }} FromSlot
 */

/**
 * Figures of a trial of a data channel (`link-trial.js`).
 * @typedef {{ mb_per_s: number, rtt_ms: number }} Figures
 */

/**
 * Page → an end of a data channel without a node (`link-worker.js`), and what that says.
 * @typedef {{ type: "open", peer: string, offers: boolean, leads: boolean } | { type: "take", words: Uint8Array }
 *   | Extract<ToNode, { type: "rtc" }>} ToEnd
 * @typedef {Extract<FromNode, { type: `rtc_${string}` }> | { type: "id", id: string } | { type: "words", words: Uint8Array }
 *   | { type: "connected" } | ({ type: "figures" } & Figures) | { type: "failed", why: string }} OfEnd
 */

/**
 * Functions by the type of the message that each takes.
 * @template {{ type: string }} Message
 * @template {unknown[]} [First=[]]
 * @typedef {{ [Type in Message["type"]]: (...args: [...First, Extract<Message, { type: Type }>]) => unknown }} Handlers
 */

export {};
