// Runs a WASI preview 1 command under node; cargo hands it the test programs of wasm32-wasip1.
// They see no files: the core has no use for any.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...args] = process.argv.slice(2);
const { PROPTEST_CASES, RUST_BACKTRACE } = process.env;
const env = Object.fromEntries(Object.entries({ PROPTEST_CASES, RUST_BACKTRACE }).filter(([, value]) => value));
const wasi = new WASI({ version: "preview1", args: [program, ...args], env, returnOnExit: true });

const module = await WebAssembly.compile(await readFile(program));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
try {
  process.exitCode = wasi.start(instance);
} catch (trap) {
  // A panic has told its story on stderr already.
  console.error(`${program}: ${trap}`);
  process.exitCode = 134;
}
