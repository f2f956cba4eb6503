// Credit in the words that people use for it: the API has whole micro-credits, people have credits.

import { count } from "./format.js";

const MICRO = 1_000_000;
/** Most micro-credits that there are, as the gateway has it: more a page could not hold exactly. */
const MOST = Number.MAX_SAFE_INTEGER;

/** `12.5`, `-0.000001`, `1,000`: exact, up to six digits behind the point. @param {number | null | undefined} micro */
export function credits(micro) {
  const given = micro ?? 0;
  const all = Math.abs(given);
  const rest = String(all % MICRO).padStart(6, "0").replace(/0+$/, "");
  return `${given < 0 ? "−" : ""}${count(Math.floor(all / MICRO))}${rest && `.${rest}`}`;
}

/** Like `credits`, with the unit: `1 credit`, `0.5 credits`. @param {number} micro */
export const inCredits = (micro) => `${credits(micro)} ${micro === MICRO ? "credit" : "credits"}`;

/** Micro-credits of what somebody typed in credits; an Error says in words why it is none. @param {string} text */
export function microOf(text) {
  const parts = /^(\d+)?(?:\.(\d+))?$/.exec(text.trim());
  if (!parts || (parts[1] ?? parts[2]) === undefined) return new Error("Write an amount in credits, such as 10 or 0.25.");
  const [, whole = "0", rest = ""] = parts;
  if (rest.length > 6) return new Error("A credit has six digits behind the point at most.");
  const micro = Number(whole + rest.padEnd(6, "0"));
  if (micro > MOST) return new Error(`More than ${credits(MOST)} credits there never are.`);
  return micro > 0 ? micro : new Error("Write an amount above 0.");
}
