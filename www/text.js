// Text from elsewhere, such as names and reasons of other nodes, on its way to a person.

/**
 * Characters without a look of their own that change how others look or are read: marks of
 * direction, characters of no width, blanks that look like nothing, tags, and control characters
 * but for tabs and ends of lines. `native/src/text.rs` has the same list.
 */
const MISLEADING = new RegExp(
  "[" +
    "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f" +
    "\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\u2800\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\u{110bd}\\u{110cd}\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}" +
    "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}" +
    "]",
  "gu",
);

/** The text with a mark in place of each character that misleads. @param {unknown} text */
export const readable = (text) => String(text).replace(MISLEADING, "\ufffd");

/** The error, in words. @param {unknown} error */
export const errorText = (error) => (error instanceof Error ? error.message : String(error));
