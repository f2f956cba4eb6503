// A page that an ordinary proxy serves over https: with the lines of docs/deployment.md, and nginx as Debian has it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, Swarm, execute, guest, native, stdout, test } from "./harness.mjs";

const NAME = "compute.example.org";
const WORK = ["1", "100000"];
const FUEL = 1_000_000_000_000;
const SPEED = 500_000_000;

/** A port that nobody has. */
async function free() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The lines that the documentation gives for nginx, with the names and ports of this test. */
async function lines(folder, port, http, ws) {
  const page = await readFile(join(ROOT, "docs/deployment.md"), "utf8");
  const given = /```nginx\n([\s\S]*?)```/.exec(page)[1];
  const changes = [
    ["listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`],
    ["listen [::]:443 ssl;", ""],
    ["127.0.0.1:8080", `127.0.0.1:${http}`],
    ["127.0.0.1:4002", `127.0.0.1:${ws}`],
    [`/etc/ssl/${NAME}.pem`, join(folder, "cert.pem")],
    [`/etc/ssl/${NAME}.key`, join(folder, "key.pem")],
  ];
  return changes.reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `the documentation has ${from}`);
    return text.replace(from, to);
  }, given);
}

/** Starts nginx before the gateway of a swarm; gives the URL that browsers use. */
async function proxy(t, swarm) {
  const folder = await mkdtemp(join(tmpdir(), "manyhands-proxy-"));
  const made = await execute("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", `/CN=${NAME}`,
    "-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")]);
  assert.equal(made.code, 0, made.stderr);
  const ws = swarm.gateway.addresses.find((one) => one.includes("/ws"));
  const port = await free();
  const server = await lines(folder, port, new URL(swarm.url).port, /tcp\/(\d+)/.exec(ws)[1]);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((of) => `${of}_temp_path ${folder}/${of};`);
  await writeFile(join(folder, "nginx.conf"), `
    daemon off; master_process off; pid ${folder}/pid; error_log stderr;
    events {}
    http { access_log off; ${temporary.join(" ")} ${server} }
  `);
  const child = spawn("nginx", ["-p", folder, "-c", join(folder, "nginx.conf")], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
  });
  const end = () => child.kill("SIGKILL");
  process.on("exit", end);
  const closed = once(child, "close");
  t.after(async () => {
    end();
    await closed;
    await rm(folder, { recursive: true, force: true });
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  const ended = closed.then(() => assert.fail(`nginx ended:\n${said}`));
  ended.catch(() => {});
  await Promise.race([answers(port), ended]);
  return { url: `https://${NAME}:${port}`, said: () => said };
}

/** Returns when something listens there. */
async function answers(port) {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const came = await Promise.race([once(socket, "connect").then(() => true), once(socket, "error").then(() => false)]).catch(() => false);
    socket.destroy();
    if (came) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A swarm whose browser finds the name on this machine, and takes any certificate. */
async function behindProxy(t) {
  const swarm = await Swarm.start(t, "--public-host", NAME);
  swarm.browserArgs = [`--host-resolver-rules=MAP ${NAME} 127.0.0.1`, "--ignore-certificate-errors"];
  return { swarm, before: await proxy(t, swarm) };
}

test("a page that a proxy serves over https joins through it and computes, and the dashboard works there", async (t) => {
  const { swarm, before } = await behindProxy(t);
  const page = await swarm.tab(before.url);
  assert.equal(await page.evaluate(() => isSecureContext), true);
  await swarm.give(page, "tab");
  const program = await swarm.upload(guest("xorshift"));
  const { id } = await swarm.submit({ program, arguments: ["{}"], sweep: { first: 1, count: 5 } });
  const done = await swarm.finished(id);
  assert.equal(done.state, "done", done.reason);
  const [node] = await swarm.nodes((nodes) => nodes.some(({ name }) => name === "tab")).then((nodes) => nodes.filter(({ name }) => name === "tab"));
  assert.equal(node.connection, "websocket");

  const dashboard = await swarm.tab(`${before.url}/dashboard#token=${swarm.gateway.token}`);
  await dashboard.getByRole("navigation").getByRole("link", { name: "Jobs" }).click();
  // Events come through the proxy as they happen: the list has the job that is submitted now.
  await dashboard.getByRole("heading", { name: "Jobs" }).waitFor();
  await swarm.submit({ name: "through the proxy", program, arguments: ["{}"], sweep: { first: 1, count: 1 } });
  await dashboard.getByText("through the proxy").first().waitFor();
  assert.deepEqual(swarm.troubles, [], before.said());
});

test("a page over https computes for a gateway that has no certificate, by a data channel", async (t) => {
  const { swarm, before } = await behindProxy(t);
  const ada = await swarm.trader("ada", 900_000, SPEED);
  const headers = { "Content-Type": "application/json" };
  const post = (path, body, of) => swarm.api(path, { method: "POST", body: JSON.stringify(body), headers, of });
  const { code } = await post("wallet/invites", { amount: 2_000_000_000 });
  await post("wallet/redeem", { code }, ada);
  const tab = await swarm.seller("tab", 50_000, `${before.url}/?speed=${SPEED}`);
  await swarm.offers((offers) => offers.some(({ seller }) => seller === tab.node));

  // From now on the story is told by ada, who owns the job.
  swarm.gateway = ada;
  const program = await swarm.upload(guest("ballast"));
  const { id } = await swarm.submit({ program, arguments: WORK, find: "cheapest", max_price: 1_000_000_000, fuel_limit: FUEL });
  const done = await swarm.finished(id);
  assert.equal(done.state, "done", done.reason);
  const [result] = await swarm.results(id);
  assert.equal(result.runner, tab.node);
  assert.equal(stdout(result), (await execute(native("ballast"), WORK)).stdout);
  const nodes = await swarm.nodes((nodes) => nodes.some((node) => node.id === tab.node));
  assert.equal(nodes.find((node) => node.id === tab.node).connection, "webrtc");
  assert.deepEqual(swarm.troubles, [], before.said());
});
