// An end of a data channel without a node, for measurements (`link-trial.js`).
import init, { LinkEnd } from "/pkg/web_node_submits.js";

/** @import { OfEnd, ToEnd } from "./messages.js" */

/** @param {OfEnd} message */
const tell = (message) => postMessage(message);

const started = init().then(() => {
  const end = new LinkEnd();
  tell({ type: "id", id: end.id() });
  return end;
});

/** @param {MessageEvent<ToEnd>} event */
self.onmessage = async ({ data }) => {
  try {
    const end = await started;
    if (data.type === "open") end.open(data.peer, data.offers, data.leads);
    else if (data.type === "take") end.take(data.words);
    else if (data.type === "rtc") end.channel(data);
  } catch (error) {
    tell({ type: "failed", why: String(error) });
  }
};
started.catch((error) => tell({ type: "failed", why: String(error) }));
