// The lab itself: whether its machines, routers, firewalls and links do what the other stories rely on.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Lab } from "./lab.mjs";

const PORT = 9999;
const SERVE = `
  const answer = (socket) => socket.on("error", () => {}).end(socket.remoteAddress + " " + socket.remotePort + "\\n");
  require("node:net").createServer(answer).listen({ port: ${PORT}, host: "::" }, () => console.log("listening"));
  const udp = require("node:dgram").createSocket("udp4");
  udp.on("message", (_, from) => udp.send("heard", from.port, from.address)).bind(${PORT});`;

async function serve(machine) {
  const child = await machine.spawn(process.execPath, ["-e", SERVE]);
  await once(child.stdout, "data");
}

/** How the server at `host` sees this machine: `{ip, port}`; null if it cannot be reached within a second. */
async function seen(machine, host, from = 0) {
  const dial = `
    const socket = require("node:net").connect({ host: "${host}", port: ${PORT}, localPort: ${from} });
    socket.on("data", (text) => process.stdout.write(text)).on("error", () => process.exit(1)).on("end", () => process.exit(0));
    setTimeout(() => process.exit(1), 1000);`;
  const { code, stdout } = await machine.run(process.execPath, ["-e", dial]);
  if (code !== 0) return null;
  const [ip, port] = stdout.trim().split(" ");
  return { ip: ip.replace("::ffff:", ""), port: Number(port) };
}

async function answersByUdp(machine, host) {
  const ask = `
    const udp = require("node:dgram").createSocket("udp4");
    udp.on("message", () => process.exit(0)).send("ask", ${PORT}, "${host}");
    setTimeout(() => process.exit(1), 1000);`;
  return (await machine.run(process.execPath, ["-e", ask])).code === 0;
}

test("machines reach each other by both families and by name", async (t) => {
  const lab = await Lab.start(t);
  const ada = await lab.machine("ada");
  const bob = await lab.machine("bob");
  const six = await lab.machine("six", { v4: false });
  await Promise.all([serve(ada), serve(six)]);
  assert.equal((await seen(bob, ada.v4)).ip, bob.v4);
  assert.equal((await seen(bob, ada.v6)).ip, bob.v6);
  assert.equal((await seen(bob, "six.example")).ip, bob.v6);
  assert.equal((await seen(six, "ada.example")).ip, six.v6);
  assert.equal(await answersByUdp(bob, ada.v4), true);
  const { stdout } = await bob.run("cat", ["/proc/sys/kernel/hostname"]);
  assert.equal(stdout, "bob\n");
});

test("a router lets its machines out and nobody in, and a symmetric one takes other ports", async (t) => {
  const lab = await Lab.start(t);
  const ada = await lab.machine("ada");
  const nat = await lab.router("nat");
  const symmetric = await lab.router("symmetric", { symmetric: true });
  const bob = await lab.machine("bob", { behind: nat });
  const cleo = await lab.machine("cleo", { behind: symmetric });
  const dora = await lab.machine("dora", { behind: nat });
  await Promise.all([serve(ada), serve(bob)]);
  assert.deepEqual(await seen(bob, ada.v4, 5555), { ip: nat.machine.v4, port: 5555 });
  const ports = [];
  for (const from of [5555, 5556, 5557]) ports.push((await seen(cleo, ada.v4, from)).port);
  assert.notDeepEqual(ports, [5555, 5556, 5557]);
  assert.ok(await seen(dora, bob.v4), "machines behind the same router reach each other");
  assert.equal(await seen(ada, bob.v4), null, "a private address leads nowhere");
  assert.equal(await seen(ada, nat.machine.v4), null, "the router lets nobody in");
});

test("firewalls keep out what they should, and links are cut and healed", async (t) => {
  const lab = await Lab.start(t);
  const ada = await lab.machine("ada");
  const wall = await lab.machine("wall", { inbound: "drop" });
  const still = await lab.machine("still", { udp: "drop" });
  await Promise.all([serve(ada), serve(wall), serve(still)]);
  assert.equal(await seen(ada, wall.v4), null);
  assert.ok(await seen(wall, ada.v4));
  assert.ok(await seen(ada, still.v4));
  assert.equal(await answersByUdp(ada, still.v4), false);
  assert.equal(await answersByUdp(still, ada.v4), false);
  await still.cut();
  assert.equal(await seen(ada, still.v4), null);
  await still.heal();
  assert.ok(await seen(ada, still.v4));
});
