// One slot: a Worker that runs tasks. The node's Worker creates and terminates it.
import init, { Slot } from "/pkg/web_task.js";

const slot = init().then(() => new Slot((message, moved) => postMessage(message, moved)));

const does = {
  prepare(slot, { module, program, form }) {
    postMessage({ type: "prepared", module, ...slot.prepare(module, program, form) });
  },
  learn(slot, { module, compiled, about }) {
    slot.learn(module, compiled, about);
  },
  forget(slot, { module }) {
    slot.forget(module);
  },
  run(slot, { module, tasks }) {
    slot.run(module, tasks);
    turn(slot);
  },
  snapshot(slot, { run, stop }) {
    slot.snapshot(run, stop);
    soon();
  },
  pause(slot, { run }) {
    slot.pause(run, true);
  },
  resume(slot, { run }) {
    slot.pause(run, false);
    soon();
  },
  kill(slot, { run }) {
    slot.kill(run);
    soon();
  },
  time_up(slot, { run }) {
    slot.time_up(run);
    soon();
  },
  share(slot, { percent }) {
    slot.share(percent);
    soon();
  },
};

// The next turn, after the messages that wait. A timer would be late by milliseconds each time.
const { port1, port2 } = new MessageChannel();
let coming = false;
let timer = 0;
port1.onmessage = () => {
  coming = false;
  slot.then(turn).catch(failed);
};

function soon() {
  if (!coming) port2.postMessage(null);
  coming = true;
}

/** Computes for a while, and sees to it that this goes on. */
function turn(slot) {
  const rest = slot.turn();
  clearTimeout(timer);
  if (rest === 0) soon();
  else if (rest > 0) timer = setTimeout(soon, rest);
}

const failed = (error) => postMessage({ type: "failed", error: String(error) });

// Set at once: a module Worker loses what arrives before it listens. Messages wait for the slot
// in their order.
self.onmessage = ({ data }) => slot.then((slot) => does[data.type](slot, data)).catch(failed);
slot.then(() => postMessage({ type: "ready" }), failed);
