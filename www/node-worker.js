// The node, in a Worker of its own. The page that creates it passes on what its person wants.
import init, { WebNode, faults_of } from "/pkg/web_node.js";
import { takeUp } from "/left.js";

const loaded = init();
let left = null;
let node = null;

const does = {
  async start({ gateway, slots, name, invite, policy, knows, speed }) {
    const kept = await left;
    if (kept) postMessage({ type: "named", name: kept.name });
    node ??= new WebNode(gateway, slots, name, invite, kept, policy, knows, speed);
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
    postMessage({ type: "checked", n, faults: JSON.parse(faults_of(policy)) });
  },
  stop({ patience }) {
    if (node) node.stop(patience);
    else postMessage({ type: "stopped" });
  },
};

// What throws here has left the node in an unknown state: the page starts another Worker.
const fatal = (error) => postMessage({ type: "fatal", message: error?.message ?? String(error) });

// One after the other: nothing is said to a node that is still starting.
let turn = loaded;
self.onmessage = ({ data }) => {
  // While the program loads.
  if (data.type === "start") left ??= takeUp(data.last);
  turn = turn.then(() => does[data.type](data)).catch(fatal);
};
self.onunhandledrejection = ({ reason }) => fatal(reason);
self.onerror = (message) => fatal(message);
loaded.catch(fatal);
