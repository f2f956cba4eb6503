// The gateway's HTTP API as functions. Every failure becomes an ApiError in words.

import { token } from "./token.js";

export const BASE = "/api/v1";

export class ApiError extends Error {
  /**
   * @param {number} status 0 when no answer came at all
   * @param {string} title
   * @param {string} detail
   * @param {string | null} [field] of the request's body that is at fault
   */
  constructor(status, title, detail, field = null) {
    super([title, detail].filter(Boolean).join(". "));
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.field = field;
  }
  get needsToken() {
    return this.status === 401;
  }
}

/** Whether something was given up on somebody's wish. @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** @param {HeadersInit} more */
function headers(more) {
  const all = new Headers(more);
  if (token()) all.set("Authorization", `Bearer ${token()}`);
  return all;
}

/**
 * @typedef {{ method?: string, body?: BodyInit, signal?: AbortSignal, accept?: string, more?: Record<string, string> }} RequestOptions
 */

/**
 * A fetch whose answer is a good one.
 * @param {string} path
 * @param {RequestOptions} [options]
 */
export async function request(path, { method = "GET", body, signal, accept, more } = {}) {
  let answer;
  try {
    answer = await fetch(path.startsWith("/") ? path : `${BASE}/${path}`, {
      method, body, signal, cache: "no-store", headers: headers({ ...(accept && { Accept: accept }), ...more }),
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "The gateway does not answer", `It may have stopped, or the network to ${location.host} is down.`);
  }
  if (!answer.ok) throw problem(answer.status, await answer.text().catch(() => ""));
  return answer;
}

/**
 * RFC 9457, or whatever text came instead.
 * @param {number} status
 * @param {string} text
 */
export function problem(status, text) {
  try {
    const { title, detail, type = "about:blank", field } = /** @type {Partial<Api.Problem>} */ (JSON.parse(text));
    // Without a type of its own a problem's title is the status's name, which tells nobody much.
    const named = type === "about:blank" ? "" : title;
    if (detail || named) return new ApiError(status, named || NAMES[status] || "", detail ?? "", field);
  } catch {
    // Not JSON: a proxy in between, perhaps.
  }
  return new ApiError(status, usual(status), text.trim().startsWith("<") ? "" : text.trim().slice(0, 300));
}

/** @type {Record<number, string>} */
const NAMES = {
  401: "The gateway asks for its token",
  403: "The gateway refused this",
  413: "That is more than the gateway takes",
  429: "The gateway is busy; try again in a moment",
  503: "The gateway is not ready yet; try again in a moment",
  507: "The gateway's disk is full",
};

/** @param {number} status */
const usual = (status) => NAMES[status] ?? `The gateway answered with status ${status}`;

/**
 * The gateway's answer, parsed. Each function below names the type of its answer.
 * @param {string} path
 * @param {RequestOptions} [options]
 */
const json = async (path, options) => (await request(path, { accept: "application/json", ...options })).json();

/** @param {AbortSignal} [signal] @returns {Promise<Api.Network>} */
export const network = (signal) => json("network", { signal });
/** @param {AbortSignal} [signal] @returns {Promise<Api.Node[]>} */
export const nodes = async (signal) => /** @type {Api.NodeList} */ (await json("nodes", { signal })).nodes;
/** @param {AbortSignal} [signal] @returns {Promise<Api.Tree>} */
export const tree = (signal) => json("tree", { signal });
/** @param {AbortSignal} [signal] @returns {Promise<Api.View>} */
export const policy = (signal) => json("policy", { signal });
/** @param {Api.View["set"]} set those that are to hold; the others are default @returns {Promise<Api.View>} */
export const setPolicy = (set) =>
  json("policy", { method: "PUT", body: JSON.stringify(set), more: { "Content-Type": "application/json" } });
/** @param {number} limit @param {string | null} cursor @param {AbortSignal} [signal] @returns {Promise<Api.JobList>} */
export const jobs = (limit, cursor, signal) => json(`jobs?${query({ limit, cursor })}`, { signal });
/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<Api.Job>} */
export const job = (id, signal) => json(`jobs/${encodeURIComponent(id)}`, { signal });
/** @param {string} id @returns {Promise<Api.Job>} */
export const cancel = (id) => json(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
/**
 * @param {string} id
 * @param {number} from
 * @param {number} limit
 * @param {AbortSignal} [signal]
 * @returns {Promise<Api.UnitList>}
 */
export const units = (id, from, limit, signal) => json(`jobs/${encodeURIComponent(id)}/units?${query({ from, limit })}`, { signal });
/** @param {string} path @param {object} body */
const post = (path, body) => json(path, { method: "POST", body: JSON.stringify(body), more: { "Content-Type": "application/json" } });
/** @param {string} id @param {number} index @param {string | null} to @returns {Promise<Api.Moved>} */
export const migrate = (id, index, to) => post(`jobs/${encodeURIComponent(id)}/units/${index}/migrate`, /** @satisfies {Api.MigrateRequest} */ ({ to }));
/** @param {string} id @param {number} index @param {boolean} paused @returns {Promise<Api.Unit>} */
export const pause = (id, index, paused) => post(`jobs/${encodeURIComponent(id)}/units/${index}/pause`, /** @satisfies {Api.PauseRequest} */ ({ paused }));
/**
 * @param {string} id
 * @param {number} from
 * @param {number} limit
 * @param {AbortSignal} [signal]
 * @returns {Promise<Api.ResultList>}
 */
export const results = (id, from, limit, signal) => json(`jobs/${encodeURIComponent(id)}/results?${query({ from, limit })}`, { signal });

/** @param {AbortSignal} [signal] @returns {Promise<Api.MarketState>} */
export const market = (signal) => json("market", { signal });
/** @param {number} limit @param {AbortSignal} [signal] @returns {Promise<Api.Wallet>} */
export const wallet = (limit, signal) => json(`wallet?${query({ limit })}`, { signal });
/** @param {number} amount @returns {Promise<Api.Invite>} */
export const invite = (amount) => post("wallet/invites", /** @satisfies {Api.NewInvite} */ ({ amount }));
/** @param {string} code @returns {Promise<Api.Wallet>} */
export const redeem = (code) => post("wallet/redeem", /** @satisfies {Api.Redeem} */ ({ code }));
/** @param {string} to @param {number} amount @returns {Promise<Api.Wallet>} */
export const sendCredit = (to, amount) => post("wallet/transfers", /** @satisfies {Api.Transfer} */ ({ to, amount }));

/** @param {AbortSignal} [signal] @returns {Promise<Api.FileList>} */
export const files = (signal) => json("files", { signal });
/**
 * How much of an upload has been sent, in bytes.
 * @typedef {(sent: number, all: number) => void} OnProgress
 */

/**
 * @param {File} file
 * @param {{ copies: number, max_price: number | null, encrypt: boolean }} wishes
 * @param {OnProgress} [onProgress]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Api.File>}
 */
export const putFile = (file, { copies, max_price, encrypt }, onProgress, signal) =>
  send(`files?${query({ name: file.name, copies, max_price, encrypt })}`, file, onProgress, signal);
/** @param {string} id @param {string} name @returns {Promise<Api.File>} */
export const nameFile = (id, name) => post(`files/${encodeURIComponent(id)}/names`, /** @satisfies {Api.NewName} */ ({ name }));
/** @param {string} id @returns {Promise<Api.File>} */
export const removeFile = (id) => json(`files/${encodeURIComponent(id)}`, { method: "DELETE" });
/** @param {string} id @param {AbortSignal} [signal] */
export const fileContent = async (id, signal) => (await request(`files/${encodeURIComponent(id)}/content`, { signal })).blob();

/**
 * A key that comes twice makes one job, so a repeated click or a lost answer does no harm.
 * @param {Api.JobRequest} spec
 * @param {string} key
 * @param {AbortSignal} [signal]
 * @returns {Promise<Api.Job>}
 */
export const submit = (spec, key, signal) =>
  json("jobs", { method: "POST", body: JSON.stringify(spec), signal, more: { "Content-Type": "application/json", "Idempotency-Key": key } });

/** @param {Record<string, string | number | boolean | null | undefined>} values */
function query(values) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) parts.set(key, String(value));
  }
  return parts;
}

/**
 * Uploads content and gives its id.
 * @param {Blob} content
 * @param {OnProgress} [onProgress]
 * @param {AbortSignal} [signal]
 */
export const upload = async (content, onProgress, signal) => /** @type {Api.Blob} */ (await send("blobs", content, onProgress, signal)).id;

/**
 * By XMLHttpRequest: fetch tells no progress.
 * @template Answer
 * @param {string} path
 * @param {Blob} content
 * @param {OnProgress} [onProgress]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
function send(path, content, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    call.open("POST", `${BASE}/${path}`);
    for (const [key, value] of headers({ "Content-Type": "application/octet-stream" })) call.setRequestHeader(key, value);
    call.upload.onprogress = (event) => event.lengthComputable && onProgress?.(event.loaded, event.total);
    call.onload = () => {
      if (call.status < 200 || call.status > 299) return reject(problem(call.status, call.responseText));
      try {
        resolve(JSON.parse(call.responseText));
      } catch {
        reject(new ApiError(call.status, "The gateway's answer to the upload is unreadable", call.responseText.slice(0, 200)));
      }
    };
    // A refused upload may end in a reset connection before its answer can be read.
    call.onerror = () => reject(new ApiError(0, "The upload broke off", "The gateway stopped answering. It may be down, or the content is larger than it takes."));
    call.onabort = () => reject(new DOMException("Aborted", "AbortError"));
    signal?.addEventListener("abort", () => call.abort(), { once: true });
    call.send(content);
  });
}

/**
 * Content behind a `url` of the API, with the token.
 * @param {string} url
 * @param {AbortSignal} [signal]
 */
export async function content(url, signal) {
  return (await request(new URL(url, location.origin).pathname, { signal })).blob();
}
