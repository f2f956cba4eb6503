// How other computers join this swarm, for views that say so.

import { network } from "./api.js";
import { copyButton, h, replace } from "./dom.js";

/** How others join: the page for tabs, the command for servers. */
export function joining() {
  const page = `${location.origin}/`;
  const command = `manyhands up --join ${location.origin}`;
  // Other machines cannot use a loopback address.
  const near = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  const element = h("div", { class: "join" },
    h("div", { class: "copyable" }, h("span", null, "In a browser"), h("code", { class: "command" }, page), copyButton(page)),
    h("div", { class: "copyable" }, h("span", null, "On a server"), h("code", { class: "command" }, command), copyButton(command)),
    near && h("p", { class: "hint" }, "These work on this machine only. The gateway says at its start what others use."));
  const elsewhere = h("p", { class: "hint" }, "This node is no gateway. Others join the gateway that it has joined.");
  // Errors are shown by the view around it.
  network().then(({ gateway }) => gateway || replace(element, elsewhere), () => {});
  return element;
}
