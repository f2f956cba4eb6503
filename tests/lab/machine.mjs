// A machine of the lab: a network namespace with a host name, a home folder and the processes in it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { must } from "./lab.mjs";
import { Node } from "./node.mjs";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.MANYHANDS || join(ROOT, "target/release/manyhands");

/** An example task, as a module. */
export const guest = (name) => join(dirname(BINARY), "../wasm/wasm32-wasip1/release", `${name}.wasm`);

export class Machine {
  #processes = new Set();

  constructor(lab, name, { behind }) {
    this.lab = lab;
    this.name = name;
    this.behind = behind;
    this.namespace = `${lab.prefix}${name}`;
    this.home = join(lab.folder, name);
  }

  sysctl(path, value) {
    return this.#must("sh", ["-c", `test ! -e /proc/sys/${path} || echo ${value} >/proc/sys/${path}`]);
  }

  nft(rules) {
    return this.#must("nft", ["-f", "-"], rules);
  }

  #must(program, args, input) {
    return must("nsenter", [`--net=/run/netns/${this.namespace}`, program, ...args], input);
  }

  /** Cuts its link without a word to it, as when a switch further on fails. */
  cut() {
    return this.#link(0);
  }

  heal() {
    return this.#link(3);
  }

  /** 0 drops every frame, 3 forwards. */
  #link(state) {
    const { namespace, name } = this.port;
    return must("bridge", [...(namespace ? ["-n", namespace] : []), "link", "set", "dev", name, "state", String(state)]);
  }

  /** Starts a program on this machine, in its home folder. */
  async spawn(program, args, env = {}) {
    await mkdir(this.home, { recursive: true });
    // Each exec replaces the one before it: the child is the program itself.
    const outer = [`--net=/run/netns/${this.namespace}`, "unshare", "--uts"];
    const inner = ["sh", "-c", 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"', this.name, program, ...args];
    const child = spawn("nsenter", [...outer, ...inner], {
      cwd: this.home,
      env: { PATH: `${dirname(BINARY)}:${process.env.PATH}`, HOME: this.home, LANG: "C.UTF-8", ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    child.stdin.on("error", () => {});
    this.#processes.add(child);
    child.once("close", () => this.#processes.delete(child));
    return child;
  }

  /** Runs a program to its end: `{code, stdout, stderr}`. `env` names the gateway to talk to, if any. */
  async run(program, args, { env, stdin = "" } = {}) {
    const child = await this.spawn(program, args, env);
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (said[name] += text));
    child.stdin.end(stdin);
    const [code, signal] = await once(child, "close");
    return { code: code ?? signal, ...said };
  }

  /** A command of `manyhands`, typed on this machine. */
  manyhands(...args) {
    return this.run(BINARY, args);
  }

  /** Starts `manyhands up` with these words; returns when it has greeted. */
  up(...args) {
    return Node.up(this, args);
  }

  async end() {
    const ended = [...this.#processes].map((child) => once(child, "close"));
    for (const child of this.#processes) child.kill("SIGKILL");
    await Promise.all(ended);
  }
}
