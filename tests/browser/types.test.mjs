// Types of the pages' modules: tsc agrees with them, and what they say of the API is what the binary says.
//
//   npm ci --prefix tests/browser && node --test tests/browser/types.test.mjs

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { FILE, typesOf } from "./api-types.mjs";
import { Swarm, execute, test } from "./harness.mjs";

const FOLDER = dirname(fileURLToPath(import.meta.url));

for (const [who, project] of [["pages", "tsconfig.json"], ["Workers", "tsconfig.workers.json"]]) {
  test(`the modules of ${who} keep to their types`, async () => {
    const tsc = join(FOLDER, "node_modules/typescript/bin/tsc");
    const { code, stdout, stderr } = await execute(process.execPath, [tsc, "--pretty", "false", "-p", join(FOLDER, project)]);
    assert.equal(code, 0, `tsc found:\n${stdout}${stderr}`);
  });
}

test("api.d.ts has the API's payloads as the binary describes them", async (t) => {
  const swarm = await Swarm.start(t);
  const types = typesOf(await swarm.api("openapi.json"));
  assert.equal(await readFile(FILE, "utf8"), types, "the API has changed: run `node tests/browser/api-types.mjs`, and look at what tsc says then");
});
