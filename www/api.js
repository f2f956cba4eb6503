// The gateway's HTTP API as functions. Every failure becomes an ApiError in words.

import { token } from "./token.js";

export const BASE = "/api/v1";

export class ApiError extends Error {
  /** `status` is 0 when no answer came at all. */
  constructor(status, title, detail, type = "", field = null) {
    super([title, detail].filter(Boolean).join(". "));
    Object.assign(this, { status, title, detail, type, field });
  }
  get needsToken() {
    return this.status === 401;
  }
}

function headers(more) {
  const all = new Headers(more);
  if (token()) all.set("Authorization", `Bearer ${token()}`);
  return all;
}

/** A fetch whose answer is a good one. */
export async function request(path, { method = "GET", body, signal, accept, more } = {}) {
  let answer;
  try {
    answer = await fetch(path.startsWith("/") ? path : `${BASE}/${path}`, {
      method, body, signal, cache: "no-store", headers: headers({ ...(accept && { Accept: accept }), ...more }),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The gateway does not answer", `It may have stopped, or the network to ${location.host} is down.`);
  }
  if (!answer.ok) throw problem(answer.status, await answer.text().catch(() => ""));
  return answer;
}

/** RFC 9457, or whatever text came instead. */
export function problem(status, text) {
  try {
    const { title, detail, type = "about:blank", field } = JSON.parse(text);
    // Without a type of its own a problem's title is the status's name, which tells nobody much.
    const named = type === "about:blank" ? "" : title;
    if (detail || named) return new ApiError(status, named || NAMES[status] || "", detail ?? "", type, field);
  } catch {
    // Not JSON: a proxy in between, perhaps.
  }
  return new ApiError(status, usual(status), text.trim().startsWith("<") ? "" : text.trim().slice(0, 300));
}

const NAMES = {
  401: "The gateway asks for its token",
  403: "The gateway refused this",
  413: "That is more than the gateway takes",
  429: "The gateway is busy; try again in a moment",
  503: "The gateway is not ready yet; try again in a moment",
  507: "The gateway's disk is full",
};

const usual = (status) => NAMES[status] ?? `The gateway answered with status ${status}`;

const json = async (path, options) => (await request(path, { accept: "application/json", ...options })).json();

export const network = (signal) => json("network", { signal });
export const nodes = async (signal) => (await json("nodes", { signal })).nodes;
export const tree = (signal) => json("tree", { signal });
export const policy = (signal) => json("policy", { signal });
/** The settings that are to hold; the others are default. */
export const setPolicy = (set) =>
  json("policy", { method: "PUT", body: JSON.stringify(set), more: { "Content-Type": "application/json" } });
export const jobs = (limit, cursor, signal) => json(`jobs?${query({ limit, cursor })}`, { signal });
export const job = (id, signal) => json(`jobs/${encodeURIComponent(id)}`, { signal });
export const cancel = (id) => json(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
export const units = (id, from, limit, signal) => json(`jobs/${encodeURIComponent(id)}/units?${query({ from, limit })}`, { signal });
const post = (path, body) => json(path, { method: "POST", body: JSON.stringify(body), more: { "Content-Type": "application/json" } });
export const migrate = (id, index, to) => post(`jobs/${encodeURIComponent(id)}/units/${index}/migrate`, { to });
export const pause = (id, index, paused) => post(`jobs/${encodeURIComponent(id)}/units/${index}/pause`, { paused });
export const results = (id, from, limit, signal) => json(`jobs/${encodeURIComponent(id)}/results?${query({ from, limit })}`, { signal });

export const market = (signal) => json("market", { signal });
export const wallet = (limit, signal) => json(`wallet?${query({ limit })}`, { signal });
export const invite = (amount) => post("wallet/invites", { amount });
export const redeem = (code) => post("wallet/redeem", { code });
export const sendCredit = (to, amount) => post("wallet/transfers", { to, amount });

export const files = (signal) => json("files", { signal });
export const putFile = (file, { copies, max_price, encrypt }, onProgress, signal) =>
  send(`files?${query({ name: file.name, copies, max_price, encrypt })}`, file, onProgress, signal);
export const nameFile = (id, name) => post(`files/${encodeURIComponent(id)}/names`, { name });
export const removeFile = (id) => json(`files/${encodeURIComponent(id)}`, { method: "DELETE" });
export const fileContent = async (id, signal) => (await request(`files/${encodeURIComponent(id)}/content`, { signal })).blob();

/** The same key twice makes one job, so a repeated click or a lost answer does no harm. */
export const submit = (spec, key, signal) =>
  json("jobs", { method: "POST", body: JSON.stringify(spec), signal, more: { "Content-Type": "application/json", "Idempotency-Key": key } });

function query(values) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) parts.set(key, value);
  }
  return parts;
}

/** Uploads content and gives its id. */
export const upload = async (content, onProgress, signal) => (await send("blobs", content, onProgress, signal)).id;

/** By XMLHttpRequest: fetch tells no progress. */
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

/** Content behind a `url` of the API, with the token. */
export async function content(url, signal) {
  return (await request(new URL(url, location.origin).pathname, { signal })).blob();
}
