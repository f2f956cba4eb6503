// Names and reasons of other nodes, as pages show them.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { readable } from "../../www/text.js";

test("what would mislead a reader shows itself, and all other text stays", () => {
  for (const name of ["\u202eexe.gpj", "a\u200bb", "\u2066x\u2069", "x\u061c", "\u200e", "\u{e0041}", "\u001b[2J", "\u3164"]) {
    assert.match(readable(name), /\ufffd/, JSON.stringify(name));
  }
  for (const text of ["Füße", "שלום", "مرحبا", "こんにちは", "नमस्ते", "🖐️", "two\n\tlines\r\n"]) assert.equal(readable(text), text);
});

test("pages and the command line have one list of what misleads", async () => {
  const source = await readFile(new URL("../../native/src/text.rs", import.meta.url), "utf8");
  const [, list] = /MISLEADING: &\[\(u32, u32\)\] = &\[([^;]*)\];/.exec(source);
  const ranges = [...list.matchAll(/\(0x([0-9a-f]+), 0x([0-9a-f]+)\)/g)].map(([, ...ends]) => ends.map((end) => parseInt(end, 16)));
  assert.ok(ranges.length > 20);
  const listed = (code) => ranges.some(([first, last]) => first <= code && code <= last);
  // Above ASCII and its likeness of control characters, of which the page keeps ends of lines.
  for (let code = 0xa0; code <= 0x10ffff; code += 1) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    assert.equal(readable(String.fromCodePoint(code)) === "\ufffd" && code !== 0xfffd, listed(code), code.toString(16));
  }
});
