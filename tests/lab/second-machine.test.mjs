// README's second machine: what a newcomer types on it, and what comes of it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { LIMIT, openGateway } from "./kinds.mjs";
import { Lab } from "./lab.mjs";
import { BINARY, ROOT, guest } from "./machine.mjs";
import { isGuest, isMember, standing } from "./node.mjs";

const TEXTS = ["gettysburg", "ozymandias", "sonnet-18", "the-tyger"];
const example = (folder, text) => join(ROOT, "examples/wordcount", folder, `${text}.txt`);

test("a second machine joins with the URL alone, and a third one has its programs run", async (t) => {
  const lab = await Lab.start(t);
  const gateway = await openGateway(lab, "--slots", "0");
  const ada = await lab.machine("ada");
  await ada.up("--join", "http://gateway.example:8080");
  const all = await gateway.until(standing, (all) => isMember(all.ada), LIMIT);
  assert.ok(isMember(all.gateway));

  // The command says the same.
  const listed = await gateway.machine.manyhands("nodes", "--output", "json");
  assert.equal(listed.code, 0, listed.stderr);
  const guests = Object.fromEntries(JSON.parse(listed.stdout).nodes.map(({ name, guest }) => [name, guest]));
  assert.deepEqual(guests, { gateway: false, ada: false });

  const grace = await lab.machine("grace");
  const typed = (words, stdin) => grace.run(BINARY, words, { env: gateway.env, stdin });
  const one = await typed(["run", guest("wordcount")], await readFile(example("texts", TEXTS[0]), "utf8"));
  assert.equal(one.code, 0, one.stderr);
  assert.equal(one.stdout, await readFile(example("expected", TEXTS[0]), "utf8"));
  const each = await typed(["map", guest("wordcount"), "--", ...TEXTS.map((text) => example("texts", text))]);
  assert.equal(each.code, 0, each.stderr);
  const expected = await Promise.all(TEXTS.map((text) => readFile(example("expected", text), "utf8")));
  assert.equal(each.stdout, expected.join(""));
});

test("whoever has joined runs programs from that machine, and its own node has the job, behind a router too", async (t) => {
  const lab = await Lab.start(t);
  const gateway = await openGateway(lab, "--slots", "0");
  const ada = await lab.machine("ada");
  await ada.up("--slots", "1", "--join", "http://gateway.example:8080");
  // Other nodes may know ada by IPv6, which bob does not have.
  const bob = await lab.machine("bob", { behind: await lab.router("router") });
  await bob.up("--slots", "0", "--join", "http://gateway.example:8080");
  const all = await gateway.until(standing, (all) => isMember(all.ada) && isGuest(all.bob), LIMIT);
  const text = await readFile(example("texts", TEXTS[0]), "utf8");
  for (const machine of [ada, bob]) {
    const ran = await machine.run(BINARY, ["run", guest("wordcount")], { stdin: text });
    assert.equal(ran.code, 0, `${machine.name}: ${ran.stderr}`);
    assert.equal(ran.stdout, await readFile(example("expected", TEXTS[0]), "utf8"));
    // The machine's own node has the job, and ada's slot did it.
    const { jobs } = JSON.parse((await machine.manyhands("jobs", "--output", "json")).stdout);
    assert.deepEqual(jobs.map((job) => job.by_node.map(({ node }) => node)), [[all.ada.id]], machine.name);
  }
  assert.deepEqual((await gateway.api("jobs")).jobs, [], "the gateway has none of them");
});

test("the line that a gateway prints to join with works on another machine", async (t) => {
  const lab = await Lab.start(t);
  const machine = await lab.machine("gateway");
  const gateway = await machine.up("--gateway", "--bind", "0.0.0.0", "--invite", "sesame");
  const line = gateway.greeting("join with");
  // The word itself is shown to a terminal only.
  assert.match(line, / --invite WORD$/);
  const [program, ...words] = line.replace("WORD", "sesame").split(" ");
  assert.equal(program, "manyhands", line);
  const ada = await lab.machine("ada");
  await ada.up(...words.slice(1));
  await gateway.until(standing, (all) => isMember(all.ada), LIMIT);
});
