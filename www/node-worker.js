// The node, in a Worker of its own. The page that creates it passes on what its person wants.
import init, { WebNode, faults_of } from "/pkg/web_node.js";
import { takeUp } from "/left.js";

/** @import { FromNode, Handlers, Left, ToNode } from "./messages.js" */

const loaded = init();
/** @type {Promise<Left | undefined> | null} */
let left = null;
/** @type {WebNode | null} */
let node = null;

/** @param {FromNode} message */
const tell = (message) => postMessage(message);

/** @type {Handlers<ToNode>} */
const does = {
  async start({ gateway, slots, name, invite, policy, knows, speed, channels }) {
    const kept = await left;
    if (kept) tell({ type: "named", name: kept.name });
    node ??= new WebNode(gateway, slots, name, invite, kept, policy, knows, speed, channels ?? false);
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
};

/** @param {ToNode} message */
const perform = (message) => /** @type {(message: ToNode) => unknown} */ (does[message.type])(message);

// An error here leaves the node in an unknown state: the page starts another Worker.
/** @param {unknown} error */
const fatal = (error) => tell({ type: "fatal", message: error instanceof Error ? error.message : String(error) });

// One after the other: nothing is said to a node that is still starting.
/** @type {Promise<unknown>} */
let turn = loaded;
/** @param {MessageEvent<ToNode>} event */
self.onmessage = ({ data }) => {
  // While the program loads.
  if (data.type === "start") left ??= takeUp(data.last);
  turn = turn.then(() => perform(data)).catch(fatal);
};
self.onunhandledrejection = ({ reason }) => fatal(reason);
self.onerror = (message) => fatal(message);
loaded.catch(fatal);
