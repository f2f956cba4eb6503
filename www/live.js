// Keeps a view current: server-sent events where they come through, polling where they do not,
// nothing at all while nobody looks.
//
// Events are read with fetch, since EventSource cannot send the token. A browser opens six
// connections to one gateway for all its tabs together, so a tab holds one stream at most and
// gives it back while it is hidden.

import { BASE, request } from "./api.js";
import { token } from "./token.js";

/** @import { ApiError } from "./api.js" */

/** Between two loads at least, however fast the hints come. */
const AT_MOST_EVERY = 700;
/** Without events. */
const POLL = 2500;
/** Beside events: catches what hints do not tell, such as how long a node has been silent. */
const SLOW_POLL = 10_000;
/** Waits before a broken stream is opened again. */
const RETRIES = [1000, 2000, 5000, 10_000, 30_000];

/**
 * @typedef {"live" | "polling" | "resting" | "paused" | "ended"} Liveness
 */

/**
 * A view of the dashboard. Without `load` it is a form that nothing renews.
 * @typedef {object} View
 * @property {string} title of the tab
 * @property {HTMLElement} element
 * @property {boolean} [needsToken]
 * @property {string} [stream] path of its events below the API's base
 * @property {(signal: AbortSignal) => Promise<unknown>} [load] renews it; gives `true` if nothing will change any more
 * @property {() => boolean} [resting] whether nothing will change by itself, so that nothing is asked for
 * @property {(name: string, data: unknown) => boolean} [onEvent] takes an event; `false` if the view needs a load
 * @property {(error: ApiError) => HTMLElement} [missing] shown in its place if the API does not know what it shows
 * @property {() => void} [close] it is left
 * @property {() => unknown} [nudge] asks for a load at once; set by the dashboard
 */

/**
 * `stream`: path of the events below the API's base, if there are any; `load(signal)`: renews the
 * view; `resting()`: nothing will change by itself, so nothing is asked for;
 * `onEvent(name, data)`: takes an event, and answers false when the view needs a load;
 * `onState("live" | "polling" | "resting" | "paused" | "ended")`; `onError(error)`.
 * Gives `{loaded, nudge(), finish(), close()}`.
 * @param {{
 *   stream?: string, load: (signal: AbortSignal) => Promise<unknown>, resting?: () => boolean,
 *   onEvent?: (name: string, data: unknown) => boolean, onState?: (state: Liveness) => void, onError: (error: unknown) => void,
 * }} options
 */
export function live({ stream, load, resting = () => false, onEvent = () => false, onState = () => {}, onError }) {
  const closing = new AbortController();
  /** @type {AbortController | null} */
  let streaming = null;
  let open = false;
  let finished = false;
  let attempts = 0;
  /** @type {Promise<void> | null} */
  let loading = null;
  let dirty = false;
  let lastLoad = -Infinity;
  let timer = 0;
  let due = Infinity;
  let retry = 0;

  function tell() {
    onState(document.hidden ? "paused" : finished ? "ended" : open ? "live" : resting() ? "resting" : "polling");
  }

  /** The earliest load that was asked for is the one that happens. @param {number} wait */
  function schedule(wait) {
    if (closing.signal.aborted || document.hidden) return;
    const now = performance.now();
    const at = Math.max(now + wait, lastLoad + AT_MOST_EVERY);
    if (at >= due) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(renew, at - now);
  }

  function unschedule() {
    clearTimeout(timer);
    due = Infinity;
  }

  async function renew() {
    if (loading) {
      dirty = true;
      return loading;
    }
    unschedule();
    lastLoad = performance.now();
    dirty = false;
    loading = (async () => {
      try {
        await load(closing.signal);
      } catch (error) {
        if (!closing.signal.aborted) onError(error);
      }
    })();
    await loading;
    loading = null;
    if (dirty) schedule(0);
    else if (!finished && !resting()) schedule(open ? SLOW_POLL : POLL);
    if (!closing.signal.aborted) tell();
  }

  async function listen() {
    clearTimeout(retry);
    // Without the token there are no events, only what is open to all.
    if (!stream || !token() || streaming || finished || closing.signal.aborted || document.hidden) return;
    const mine = (streaming = new AbortController());
    try {
      const answer = await request(`${BASE}${stream}`, { accept: "text/event-stream", signal: mine.signal });
      open = true;
      attempts = 0;
      tell();
      if (answer.body) for await (const { name, data } of events(answer.body)) {
        if (mine.signal.aborted) return;
        if (!onEvent(name, data)) schedule(0);
      }
    } catch {
      // Polling goes on and shows what is wrong, if it lasts.
    }
    if (streaming !== mine) return;
    streaming = null;
    open = false;
    if (closing.signal.aborted || document.hidden || finished) return;
    tell();
    schedule(POLL);
    retry = setTimeout(listen, RETRIES[Math.min(attempts, RETRIES.length - 1)]);
    attempts += 1;
  }

  function hush() {
    unschedule();
    clearTimeout(retry);
    const was = streaming;
    streaming = null;
    open = false;
    was?.abort();
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else {
      listen();
      schedule(0);
    }
    tell();
  }, { signal: closing.signal });

  const loaded = renew();
  listen();
  tell();

  return {
    loaded,
    /** Somebody turned a page and waits. */
    nudge: renew,
    /** Nothing will change any more. */
    finish() {
      finished = true;
      hush();
      tell();
    },
    close() {
      closing.abort();
      hush();
    },
  };
}

/**
 * Reads server-sent events: `{name, data}`, data being parsed JSON or null.
 * @param {ReadableStream<BufferSource>} body
 */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let name = "message";
  /** @type {string[]} */
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { name, data: parse(data.join("\n")) };
        name = "message";
        data = [];
      } else if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    }
  }
}

/** @param {string} text @returns {unknown} */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
