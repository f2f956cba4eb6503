// The node, in a Worker of its own. The page that creates it passes on what its person wants.
import init, { WebNode } from "/pkg/web_node.js";

const loaded = init();
let node = null;

const does = {
  start({ gateway, slots, share, name, invite }) {
    node ??= new WebNode(gateway, slots, name, invite);
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

self.onmessage = ({ data }) => loaded.then(() => does[data.type](data)).catch(fatal);
self.onunhandledrejection = ({ reason }) => fatal(reason);
self.onerror = (message) => fatal(message);
loaded.catch(fatal);
