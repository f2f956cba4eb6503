// Machines on a network of their own: network namespaces, a bridge, routers that translate addresses,
// firewalls, links that are cut. Runs inside `tests/lab/enter`, which removes everything at its end.
//
// No packet leaves the lab: its bridge has no way out. So the lab takes addresses that programs treat as
// public ones, and the private networks behind routers are private ones.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Machine } from "./machine.mjs";

/** Runs a program to its end; its standard output. Everything but exit code 0 is an error. */
export async function must(program, args, input = "") {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (said[name] += text));
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: exit code ${code}\n${said.stderr}`);
  return said.stdout;
}

const FOLDER = "/run/lab";
const V4 = "45.10";
const V6 = "2a0f:1ab::";
/** Network interfaces have at most 15 bytes of name, so they have numbers. */
let interfaces = 0;
/** No address is given twice: a client of an earlier lab may still hold connections to it. */
let nextAddress = 2;

/** A network with everything on it. Made for one test, and removed at its end. */
export class Lab {
  #machines = [];
  #hosts = ["127.0.0.1 localhost", "::1 localhost"];

  /** `story` is the test, or whatever else has an `after` for what is to be done at its end. */
  static async start(story) {
    if (process.env.MANYHANDS_LAB !== "entered") {
      throw new Error("the lab was not entered: run it as tests/lab/enter node --test tests/lab/*.test.mjs");
    }
    await removeLeftovers();
    const lab = new Lab();
    story.after(() => lab.end());
    lab.prefix = `lab${process.pid}-`;
    lab.folder = join(FOLDER, `${lab.prefix}${(interfaces += 1)}`);
    lab.bridge = `lab${process.pid}.${interfaces}`;
    await mkdir(lab.folder, { recursive: true });
    // This process has an address too, so that it reaches the gateways.
    await must("ip", ["-batch", "-"], `
      link add ${lab.bridge} type bridge stp_state 0
      addr add ${V4}.0.1/16 dev ${lab.bridge}
      addr add ${V6}1/64 dev ${lab.bridge} nodad
      link set ${lab.bridge} up
    `);
    return lab;
  }

  /**
   * A machine on the network, or behind a router. Its name is its host name, and others find it by
   * `NAME.example`.
   *
   * - `behind`: the router (see `router`); without it the machine is on the open network
   * - `v4`, `v6`: whether it has an address of that family; a machine behind a router has v4 only
   * - `inbound`: "drop" for a firewall that lets nobody in
   * - `udp`: "drop" for a firewall that blocks UDP both ways
   */
  async machine(name, { behind, v4 = true, v6 = !behind, inbound, udp } = {}) {
    const at = behind ? behind.nextAddress() : nextAddress++;
    const machine = new Machine(this, name, { behind });
    if (v4) machine.v4 = behind ? `${behind.lan}.${at}` : `${V4}.${at >> 8}.${at & 255}`;
    if (v6) machine.v6 = `${V6}${at.toString(16)}`;
    const switchboard = behind ? { namespace: behind.machine.namespace, bridge: "lan" } : { bridge: this.bridge };
    await this.#wire(machine, switchboard, behind ? 24 : 16);
    // Towards addresses that nobody has, the open network swallows packets: this end does not forward.
    const routes = [v4 && (behind ? `${behind.lan}.1` : `${V4}.0.1`), v6 && `${V6}1`];
    for (const via of routes.filter(Boolean)) await must("ip", ["-n", machine.namespace, "route", "add", "default", "via", via]);
    await firewall(machine, { inbound, udp });
    // Names are public: a private address has none.
    if (!behind) await this.#name(machine);
    this.#machines.push(machine);
    return machine;
  }

  /**
   * A router for private networks: it translates their addresses into its own and lets nobody in who was
   * not asked. With `symmetric`, each connection has another port outside.
   */
  async router(name, { symmetric = false } = {}) {
    const machine = await this.machine(name, { v6: false });
    // Two routers may have the same network behind them, as at home.
    const router = new Router(machine, `192.168.${machine.number & 255}`);
    await must("ip", ["-n", machine.namespace, "-batch", "-"], `
      link add lan type bridge stp_state 0
      addr add ${router.lan}.1/24 dev lan
      link set lan up
    `);
    await machine.sysctl("net/ipv4/ip_forward", 1);
    // Traffic within the private network is none of the router's business.
    for (const family of ["iptables", "ip6tables"]) await machine.sysctl(`net/bridge/bridge-nf-call-${family}`, 0);
    await machine.nft(`
      table inet router {
        chain leaving { type nat hook postrouting priority srcnat; oifname "eth0" masquerade ${symmetric ? "fully-random" : ""}; }
        chain through {
          type filter hook forward priority filter; policy drop;
          ct state established,related accept
          iifname "lan" accept
        }
        chain entering { type filter hook input priority filter; ct state established,related accept; iifname "eth0" drop; }
      }`);
    return router;
  }

  /** Takes away the firewall of a machine that blocks UDP. */
  openUdp({ port }) {
    return netdev(port, `delete table netdev ${port.name}\n`);
  }

  /** Gives a machine its interface `eth0`, and plugs the other end in. */
  async #wire(machine, { namespace, bridge }, length) {
    machine.number = interfaces += 1;
    machine.port = { namespace, name: `lab${process.pid}p${machine.number}` };
    const there = namespace ? ["-n", namespace] : [];
    await must("ip", ["netns", "add", machine.namespace]);
    // Duplicate addresses cannot be, and looking for them takes a second.
    for (const which of ["all", "default"]) {
      await machine.sysctl(`net/ipv6/conf/${which}/accept_dad`, 0);
      await machine.sysctl(`net/ipv6/conf/${which}/dad_transmits`, 0);
    }
    // A cut link leaves the addresses where they are.
    await must("ip", ["link", "add", machine.port.name, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace]);
    if (namespace) await must("ip", ["link", "set", machine.port.name, "netns", namespace]);
    await must("ip", [...there, "link", "set", machine.port.name, "master", bridge, "up"]);
    const address = [
      machine.v4 && `addr add ${machine.v4}/${length} dev eth0`,
      machine.v6 && `addr add ${machine.v6}/64 dev eth0 nodad`,
    ];
    await must("ip", ["-n", machine.namespace, "-batch", "-"], `
      link set lo up
      link set eth0 up
      ${address.filter(Boolean).join("\n")}
    `);
  }

  async #name(machine) {
    for (const ip of [machine.v4, machine.v6]) if (ip) this.#hosts.push(`${ip} ${machine.name}.example`);
    // Written in place: a machine that looks it up has this very file mounted.
    await writeFile(join(FOLDER, "hosts"), `${this.#hosts.join("\n")}\n`);
  }

  /** Ends the processes of all machines and removes the network. */
  async end() {
    await Promise.all(this.#machines.map((machine) => machine.end()));
    await removeNetworks((name) => name.startsWith(this.prefix), (name) => name === this.bridge);
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A router, as `behind` takes it. */
class Router {
  #next = 2;

  constructor(machine, lan) {
    this.machine = machine;
    this.lan = lan;
  }

  nextAddress() {
    return this.#next++;
  }
}

async function firewall(machine, { inbound, udp }) {
  if (inbound === "drop") {
    // Neighbour discovery is ICMP.
    await machine.nft(`
      table inet firewall {
        chain entering {
          type filter hook input priority filter; policy drop;
          iifname "lo" accept
          ct state established,related accept
          meta l4proto { icmp, icmpv6 } accept
        }
      }`);
  }
  if (udp === "drop") {
    // At the other end of the machine's link, so that the machine sees no error.
    const chain = (hook) => `chain ${hook} { type filter hook ${hook} device ${machine.port.name} priority 0; meta l4proto udp drop; }`;
    await netdev(machine.port, `table netdev ${machine.port.name} {\n${chain("ingress")}\n${chain("egress")}\n}\n`);
  }
}

/** Gives rules to the machine at whose end of a link they are. */
function netdev({ namespace }, rules) {
  return namespace ? must("ip", ["netns", "exec", namespace, "nft", "-f", "-"], rules) : must("nft", ["-f", "-"], rules);
}

/** Removes what test files left behind that were killed. `enter` removes the rest. */
async function removeLeftovers() {
  const ended = (name) => {
    const pid = /^lab(\d+)[-.]/.exec(name)?.[1];
    return pid !== undefined && !existsSync(`/proc/${pid}`);
  };
  await removeNetworks(ended, ended);
}

async function removeNetworks(isNamespace, isBridge) {
  for (const name of (await readdir("/run/netns")).filter(isNamespace)) {
    const pids = (await must("ip", ["netns", "pids", name])).split("\n").filter(Boolean);
    for (const pid of pids) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    await must("ip", ["netns", "del", name]);
  }
  const bridges = JSON.parse((await must("ip", ["-json", "link", "show", "type", "bridge"])) || "[]");
  for (const { ifname } of bridges) if (isBridge(ifname)) await must("ip", ["link", "del", ifname]);
}
