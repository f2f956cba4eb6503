// Every example task: compiled for this machine and run by the swarm it gives its known answer.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe } from "node:test";
import { BINARY, ROOT, Swarm, execute, guest, native, test } from "./harness.mjs";

const EXAMPLES = join(ROOT, "examples");

// The others are no tasks but clients, or virtual computers, which this cannot run.
const isTask = (entry) => entry.isDirectory() && existsSync(join(EXAMPLES, entry.name, "cases.json"));
const folders = (await readdir(EXAMPLES, { withFileTypes: true })).filter(isTask);
const examples = await Promise.all(
  folders.map(async ({ name }) => ({ name, cases: JSON.parse(await readFile(join(EXAMPLES, name, "cases.json"), "utf8")) })),
);

describe("The example tasks", () => {
  let swarm;
  let end;
  before(async () => (swarm = await Swarm.start({ after: (close) => (end = close) }, "--slots", "1")));
  after(() => end());

  for (const { name, cases } of examples) {
    for (const one of cases) {
      const { arguments: args = [], files = [], stdin, outputs = {} } = one;
      const text = (path) => readFile(join(EXAMPLES, name, path), "utf8");
      const told = [name, ...args, ...(stdin ? ["<", stdin] : [])].join(" ");

      /** Runs it in a folder that has its files; compares what it says and writes. */
      const check = async (context, program, ahead, outputFolder) => {
        const folder = await mkdtemp(join(tmpdir(), "example-"));
        context.after(() => rm(folder, { recursive: true, force: true }));
        for (const file of files) {
          await mkdir(dirname(join(folder, file)), { recursive: true });
          await cp(join(EXAMPLES, name, file), join(folder, file));
        }
        const env = { ...process.env, MANYHANDS_GATEWAY: swarm.url, MANYHANDS_TOKEN: swarm.gateway.token };
        const input = stdin ? await text(stdin) : "";
        const { code, stdout, stderr } = await execute(program, [...ahead, ...args], { cwd: folder, env, stdin: input });
        assert.equal(stderr, "");
        assert.equal(stdout, await text(one.stdout));
        assert.equal(code, 0);
        for (const [path, answer] of Object.entries(outputs)) {
          assert.equal(await readFile(join(folder, outputFolder, path), "utf8"), await text(answer), path);
        }
      };

      test(`${told} here`, (context) => check(context, native(name), [], "."));

      test(`${told} in the swarm`, (context) => {
        const options = ["--out-dir", "written", ...files.flatMap((file) => ["--file", file])];
        return check(context, BINARY, ["run", ...options, guest(name), "--"], "written");
      });
    }
  }
});
