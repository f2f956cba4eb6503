// Runs a WASI preview 1 command under node; cargo hands it the test programs of wasm32-wasip1.
// They see no files: the core has no use for any.
//
// Node 20 crashes now and then while it ends, after it ran a large module. So a second process runs the program and
// says its exit code; then it is killed, and how it would have ended does not count.
import { fork } from "node:child_process";
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...args] = process.argv.slice(2);

async function run() {
  const { PROPTEST_CASES, RUST_BACKTRACE } = process.env;
  const env = Object.fromEntries(Object.entries({ PROPTEST_CASES, RUST_BACKTRACE }).filter(([, value]) => value));
  const wasi = new WASI({ version: "preview1", args: [program, ...args], env, returnOnExit: true });
  const module = await WebAssembly.compile(await readFile(program));
  const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
  try {
    return wasi.start(instance);
  } catch (trap) {
    // A panic has told its story on stderr already.
    console.error(`${program}: ${trap}`);
    return 134;
  }
}

if (process.send) {
  process.send(await run());
} else {
  const child = fork(process.argv[1], [program, ...args], { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  let code;
  child.on("message", (said) => {
    code = said;
    child.kill("SIGKILL");
  });
  child.on("exit", (status, signal) => {
    if (code === undefined) {
      console.error(`${program}: ended by ${signal ?? status} before its tests were over`);
    }
    process.exitCode = code ?? 134;
  });
}
