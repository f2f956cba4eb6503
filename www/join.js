// How other computers join this swarm, for views that say so.

import { copyButton, h } from "./dom.js";

/** How others join: the page for tabs, the command for servers. */
export function joining() {
  const page = `${location.origin}/`;
  const command = `manyhands up --join ${location.origin}`;
  // Other machines cannot use a loopback address.
  const near = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  return h("div", { class: "join" },
    h("div", { class: "copyable" }, h("span", null, "In a browser"), h("code", { class: "command" }, page), copyButton(page)),
    h("div", { class: "copyable" }, h("span", null, "On a server"), h("code", { class: "command" }, command), copyButton(command)),
    near && h("p", { class: "hint" }, "These work on this machine only. The gateway says at its start what others use."));
}
