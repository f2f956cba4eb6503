// Asks the node's program what of some settings would not count. It is loaded for that, and let go
// again: nobody who changes nothing waits for it.

/** A program that nobody has asked for so long is let go, ms. */
const IDLE = 20_000;
/** A slow line needs this long for the program. */
const PATIENCE = 60_000;

/** @import { Fault, FromNode, Policy, ToNode } from "./messages.js" */

/** @type {Worker | null} */
let worker = null;
let timer = 0;
let serial = 0;

/**
 * `[{key, message}]`, in the words of a server's policy.
 * @param {Policy} policy
 * @returns {Promise<Fault[]>}
 */
export function faultsOf(policy) {
  clearTimeout(timer);
  worker ??= new Worker("/node-worker.js", { type: "module", name: "manyhands-checker" });
  const asked = worker;
  const n = (serial += 1);
  return new Promise((resolve, reject) => {
    const patience = setTimeout(() => fail("it does not answer"), PATIENCE);
    const done = () => {
      clearTimeout(patience);
      asked.removeEventListener("message", heard);
      asked.removeEventListener("error", broke);
      clearTimeout(timer);
      timer = setTimeout(letGo, IDLE);
    };
    /** @param {string} why */
    const fail = (why) => {
      done();
      letGo();
      reject(new Error(why));
    };
    /** @param {ErrorEvent} event */
    const broke = (event) => fail(event.message || "its program could not be loaded from the gateway");
    /** @param {MessageEvent<FromNode>} event */
    const heard = ({ data }) => {
      if (data.type === "fatal") fail(data.message);
      if (data.type !== "checked" || data.n !== n) return;
      done();
      resolve(data.faults);
    };
    asked.addEventListener("message", heard);
    asked.addEventListener("error", broke);
    asked.postMessage(/** @satisfies {ToNode} */ ({ type: "check", n, policy }));
  });
}

function letGo() {
  clearTimeout(timer);
  worker?.terminate();
  worker = null;
}
