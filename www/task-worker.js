// One slot: a Worker that runs tasks. The node's Worker creates and terminates it.
import init, { Slot } from "/pkg/web_task.js";

const slot = init().then(() => new Slot());
const report = (answers) => postMessage({ type: "answers", answers }, [answers.buffer]);

const does = {
  prepare(slot, { module, program, memory }) {
    postMessage({ type: "prepared", module, ...slot.prepare(module, program, memory) });
  },
  learn(slot, { module, compiled }) {
    slot.learn(module, compiled);
  },
  forget(slot, { module }) {
    slot.forget(module);
  },
  run(slot, { module, tasks }) {
    if (!slot.run(module, tasks, report)) postMessage({ type: "spent" });
  },
};

const failed = (error) => postMessage({ type: "failed", error: String(error) });

// Set at once: a module Worker loses what arrives before it listens. Messages wait for the slot
// in their order.
self.onmessage = ({ data }) => slot.then((slot) => does[data.type](slot, data)).catch(failed);
slot.then(() => postMessage({ type: "ready" }), failed);
