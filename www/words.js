// Splits a line into arguments the way a shell does: blanks part, quotes hold together.

/**
 * `{words}`, or `{words, fault}` when a quote is not closed. Nothing is expanded.
 * @param {string} line
 * @returns {{ words: string[], fault?: string }}
 */
export function splitWords(line) {
  /** @type {string[]} */
  const words = [];
  let word = "";
  let inside = false;
  let quote = null;
  for (let i = 0; i < line.length; i += 1) {
    const c = line[i];
    if (quote) {
      if (c === quote) quote = null;
      else if (c === "\\" && quote === '"' && '"\\$`'.includes(line[i + 1] ?? " ")) word += line[(i += 1)];
      else word += c;
    } else if (c === '"' || c === "'") {
      quote = c;
      inside = true;
    } else if (c === "\\" && i + 1 < line.length) {
      word += line[(i += 1)];
      inside = true;
    } else if (/\s/.test(c)) {
      if (inside) words.push(word);
      word = "";
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (inside) words.push(word);
  return quote ? { words, fault: `A quote (${quote}) is not closed.` } : { words };
}

/**
 * `KEY=VALUE` a line; empty lines are left out. `{values}` or `{fault}`.
 * @param {string} text
 * @returns {{ values: Record<string, string>, fault?: undefined } | { values?: undefined, fault: string }}
 */
export function environmentOf(text) {
  /** @type {Record<string, string>} */
  const values = {};
  for (const [i, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) return { fault: `Line ${i + 1}, “${line.slice(0, 40)}”, has no name before an equals sign. Write NAME=value.` };
    const key = line.slice(0, at).trim();
    if (Object.hasOwn(values, key)) return { fault: `${key} is given twice; keep one.` };
    values[key] = line.slice(at + 1);
  }
  return { values };
}

/**
 * Labels of nodes, `key=value` with blanks or commas between: `{values}` or `{fault}`.
 * @param {string} text
 * @returns {{ values: Record<string, string>, fault?: undefined } | { values?: undefined, fault: string }}
 */
export function labelsOf(text) {
  /** @type {Record<string, string>} */
  const values = {};
  for (const one of text.split(/[\s,]+/).filter(Boolean)) {
    const [, key, value] = /^([\w./-]{1,64})=([\w./-]{1,64})$/.exec(one) ?? [];
    if (!key) return { fault: `“${one.slice(0, 40)}” is no label. Write key=value: letters, digits, -, _, . or /.` };
    if (Object.hasOwn(values, key)) return { fault: `${key} is given twice; keep one.` };
    values[key] = value;
  }
  return { values };
}

/** Null when a path is one that a task can have, else why not. @param {string} path */
export function pathFault(path) {
  if (!path) return "A file needs a name.";
  if (path.startsWith("/")) return "Write it without a leading slash: a task's files lie under its own root.";
  if (new TextEncoder().encode(path).length > 255) return "A path has at most 255 bytes.";
  if (path.includes("\0")) return "A name cannot contain a zero byte.";
  if (path.split("/").some((part) => part === "" || part === "." || part === "..")) return "A path cannot have empty parts, “.” or “..”.";
  return null;
}

/**
 * Kind of a file that was offered as a program, in words; `null` when it may be a module.
 * @param {Uint8Array} head its beginning
 * @param {number} length
 */
export function programFault(head, length) {
  /** @param {...number} bytes */
  const starts = (...bytes) => bytes.every((byte, i) => head[i] === byte);
  const text = new TextDecoder().decode(head);
  if (length === 0) return "It is empty.";
  if (starts(0, 0x61, 0x73, 0x6d)) {
    if (head[4] === 1 && head[6] === 0) return null;
    if (head[6] === 1) return "It is a WebAssembly component, and a module is needed. Build for wasm32-wasip1 (preview 1), not wasm32-wasip2.";
    return `It is WebAssembly of version ${head[4]}, and only version 1 runs here.`;
  }
  if (starts(0x7f, 0x45, 0x4c, 0x46)) return "It is a program for Linux (ELF). Compile it for wasm32-wasip1 instead.";
  if (starts(0x4d, 0x5a)) return "It is a program for Windows. Compile it for wasm32-wasip1 instead.";
  if (starts(0xcf, 0xfa, 0xed, 0xfe) || starts(0xca, 0xfe, 0xba, 0xbe)) return "It is a program for macOS or Java. Compile it for wasm32-wasip1 instead.";
  if (starts(0x50, 0x4b)) return "It is a zip archive. Unpack it and choose the .wasm in it.";
  if (starts(0x1f, 0x8b)) return "It is compressed with gzip. Unpack it first.";
  if (/^\s*(;;.*\n\s*)*\(module/.test(text)) return "It is WebAssembly as text. Turn it into a .wasm first, for example with wat2wasm.";
  if (/^\s*(#!|\/\/|\/\*|import |use |fn |package |#include|def |function |const |let |var )/.test(text)) return "It is source code. Compile it for wasm32-wasip1 first, for example with “cargo build --target wasm32-wasip1” or clang of wasi-sdk.";
  return "It does not begin as WebAssembly does. Choose a .wasm that was compiled for wasm32-wasip1.";
}
