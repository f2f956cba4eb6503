// Numbers in the words that people use for them.

const whole = new Intl.NumberFormat("en");

/** @param {number | null | undefined} n */
export const count = (n) => whole.format(Math.round(n ?? 0));

/** @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Words that begin like a sentence. @param {string} words */
export const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/**
 * A span of seconds: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `3 d 4 h`.
 * @param {number | null | undefined} seconds
 */
export function span(seconds) {
  const s = Math.max(0, Number(seconds) || 0);
  if (s === 0) return "0 s";
  if (s < 0.0995) return `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return two(whole, 60, "min", 1, "s");
  if (whole < 86400) return two(whole, 3600, "h", 60, "min");
  return two(whole, 86400, "d", 3600, "h");
}

/**
 * @param {number} total
 * @param {number} big
 * @param {string} bigName
 * @param {number} small
 * @param {string} smallName
 */
function two(total, big, bigName, small, smallName) {
  const rest = Math.floor((total % big) / small);
  const head = `${count(Math.floor(total / big))} ${bigName}`;
  return rest ? `${head} ${rest} ${smallName}` : head;
}

/** A size: `0 bytes`, `312 bytes`, `4.2 kB`, `18 MB`. @param {number} bytes */
export function size(bytes) {
  let n = Number(bytes) || 0;
  if (n < 1000) return plural(n, "byte");
  const names = ["kB", "MB", "GB", "TB"];
  let at = -1;
  do {
    n /= 1000;
    at += 1;
  } while (n >= 999.5 && at < names.length - 1);
  return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${names[at]}`;
}

/**
 * @typedef {string | number | Date | null | undefined} Moment
 */

/** A moment as the API writes it (RFC 3339 text or milliseconds since 1970), or null. @param {Moment} value */
export function moment(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

/**
 * How long ago: `just now`, `4 min ago`, else the date.
 * @param {Moment} value
 * @param {number} [now]
 */
export function ago(value, now = Date.now()) {
  const date = moment(value);
  if (!date) return "unknown";
  const s = (now - date.getTime()) / 1000;
  if (s < 5) return "just now";
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  return date.toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** @param {Moment} value */
export function exactTime(value) {
  return moment(value)?.toLocaleString() ?? "";
}

/** How a node is called where space is short: `n-1a2b3c4d`. @param {string | null | undefined} id */
export function shortNode(id) {
  const text = String(id ?? "");
  return /^[0-9a-f]{64}$/i.test(text) ? `n-${text.slice(0, 8)}` : text;
}

/**
 * The share of `part` in `all`, in words: `0 %`, `< 1 %`, `99 %`, and 100 % only when all is there.
 * @param {number} part
 * @param {number} all
 */
export function percent(part, all) {
  if (!all || !part) return "0 %";
  if (part >= all) return "100 %";
  const share = (part / all) * 100;
  return share < 1 ? "< 1 %" : `${Math.min(99, Math.floor(share))} %`;
}
