// The harness itself: what it starts ends, also when a setup fails.

import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { execute } from "./harness.mjs";

/** Says nothing that a node would say, notes its pid, and lives until it is killed. */
const IMPOSTOR = `#!/bin/sh
echo $$ >>"$PIDS"
echo "this is no JSON"
exec sleep 1000
`;

const FAILS = `
import { after, before, describe, it } from "node:test";
import { Swarm } from "${new URL("harness.mjs", import.meta.url)}";
describe("a suite whose setup fails", () => {
  let end;
  before(() => Swarm.start({ after: (close) => (end = close) }));
  after(() => end());
  it("is never run", () => {});
});
`;

const lives = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test("a setup that fails leaves no process behind and does not hang", { timeout: 60_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "manyhands-harness-"));
  t.after(() => rm(folder, { recursive: true }));
  const [impostor, story, pids] = ["impostor", "fails.mjs", "pids"].map((name) => join(folder, name));
  await writeFile(impostor, IMPOSTOR);
  await chmod(impostor, 0o755);
  await writeFile(story, FAILS);
  // The runner of this test must not be taken for the runner of that one.
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  const ran = await execute(process.execPath, [story], { env: { ...env, MANYHANDS: impostor, PIDS: pids } });
  const started = (await readFile(pids, "utf8")).trim().split("\n").map(Number);
  t.after(() => started.filter(lives).forEach((pid) => process.kill(pid, "SIGKILL")));
  assert.notEqual(ran.code, 0, ran.stdout);
  assert.equal(started.length, 1, ran.stdout);
  assert.deepEqual(started.filter(lives), [], "it is still there");
});
