// A node in a Worker: the page that creates it passes on what its person wants.
import { takeUp } from "/left.js";

/** @import { FromNode, Handlers, Left, OfJobs, ToNode } from "./messages.js" */

/**
 * Starts a node of this module when the page says so. `more`: messages that its node takes beside those of all.
 * @template {import("/pkg/web_node.js").WebNode} Node
 * @param {{
 *   init: () => Promise<unknown>, faults_of: (policy: import("./messages.js").Policy) => string,
 *   WebNode: new (...args: ConstructorParameters<typeof import("/pkg/web_node.js").WebNode>) => Node,
 * }} module
 * @param {(node: Node) => unknown} [started]
 * @param {Partial<Handlers<OfJobs>>} [more]
 */
export function serve({ init, WebNode, faults_of }, started, more) {
  const loaded = init();
  /** @type {Promise<Left | undefined> | null} */
  let left = null;
  /** @type {Node | null} */
  let node = null;

  /** @param {FromNode} message */
  const tell = (message) => postMessage(message);

  /** @type {Handlers<Exclude<ToNode, OfJobs>> & Partial<Handlers<OfJobs>>} */
  const does = {
    async start({ gateway, slots, name, invite, policy, knows, speed, channels }) {
      const kept = await left;
      tell({ type: "loaded", name: kept?.name ?? null });
      if (node) return;
      node = new WebNode(gateway, slots, name, invite, kept, policy, knows, speed, channels ?? false);
      started?.(node);
    },
    slots({ n }) {
      node?.set_slots(n);
    },
    policy({ policy }) {
      node?.set_policy(policy);
    },
    knows({ knows }) {
      node?.set_known(knows);
    },
    check({ n, policy }) {
      tell({ type: "checked", n, faults: JSON.parse(faults_of(policy)) });
    },
    rtc(message) {
      node?.channel(message);
    },
    stop({ patience }) {
      if (node) node.stop(patience);
      else tell({ type: "stopped" });
    },
    ...more,
  };

  /** @param {ToNode} message */
  const perform = (message) => /** @type {((message: ToNode) => unknown) | undefined} */ (does[message.type])?.(message);

  // An error here leaves the node in an unknown state: the page starts another Worker.
  /** @param {unknown} error */
  const fatal = (error) => tell({ type: "fatal", message: error instanceof Error ? error.message : String(error) });

  // One after the other: nothing is said to a node that is still starting.
  /** @type {Promise<unknown>} */
  let turn = loaded;
  /** @param {MessageEvent<ToNode>} event */
  self.onmessage = ({ data }) => {
    // While the program loads.
    if (data.type === "start") left ??= takeUp(data.last, more !== undefined);
    turn = turn.then(() => perform(data)).catch(fatal);
  };
  self.onunhandledrejection = ({ reason }) => fatal(reason);
  self.onerror = (message) => fatal(message);
  loaded.catch(fatal);
}
