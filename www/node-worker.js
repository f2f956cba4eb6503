// The node, in a Worker of its own. The page that creates it passes on what its person wants.
import init, { WebNode } from "/pkg/web_node.js";

const loaded = init();
let node = null;

const does = {
  start({ gateway, slots, name, invite }) {
    node ??= new WebNode(gateway, slots, name, invite);
  },
  slots({ n }) {
    node?.set_slots(n);
  },
  stop() {
    if (node) node.stop();
    else postMessage({ type: "stopped" });
  },
};

// What throws here has left the node in an unknown state: the page starts another Worker.
const fatal = (error) => postMessage({ type: "fatal", message: error?.message ?? String(error) });

self.onmessage = ({ data }) => loaded.then(() => does[data.type](data)).catch(fatal);
self.onunhandledrejection = ({ reason }) => fatal(reason);
self.onerror = (message) => fatal(message);
loaded.catch(fatal);
