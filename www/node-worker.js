// The node, in a Worker of its own. The page that creates it passes on what its person wants.
import init, { WebNode } from "/pkg/web_node.js";
import { takeUp } from "/left.js";

const loaded = init();
let left = null;
let node = null;

const does = {
  async start({ gateway, slots, share, name, invite }) {
    const kept = await left;
    if (kept) postMessage({ type: "named", name: kept.name });
    node ??= new WebNode(gateway, slots, name, invite, kept);
    if (share) node.set_share(share);
  },
  slots({ n }) {
    node?.set_slots(n);
  },
  share({ percent }) {
    node?.set_share(percent);
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
