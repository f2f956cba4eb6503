// One slot: a Worker that runs tasks. The node's Worker creates and terminates it.
import init, { Slot } from "/pkg/web_task.js";

/** @import { FromSlot, Handlers, ToSlot } from "./messages.js" */

/** @param {FromSlot} message @param {Transferable[]} [moved] */
const tell = (message, moved = []) => postMessage(message, moved);

const slot = init().then(() => new Slot(tell));

/** @type {Handlers<ToSlot, [slot: Slot]>} */
const does = {
  prepare(slot, { module, program, form }) {
    tell({ type: "prepared", module, ...slot.prepare(module, program, form) });
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

/** Computes for a while, and sees to it that this goes on. @param {Slot} slot */
function turn(slot) {
  const rest = slot.turn();
  clearTimeout(timer);
  if (rest === 0) soon();
  else if (rest > 0) timer = setTimeout(soon, rest);
}

/** @param {unknown} error */
const failed = (error) => tell({ type: "failed", error: String(error) });

/** @param {Slot} slot @param {ToSlot} message */
const perform = (slot, message) => /** @type {(slot: Slot, message: ToSlot) => unknown} */ (does[message.type])(slot, message);

// Set at once: a module Worker loses what arrives before it listens. Messages wait for the slot
// in their order.
/** @param {MessageEvent<ToSlot>} event */
self.onmessage = ({ data }) => slot.then((slot) => perform(slot, data)).catch(failed);
slot.then(() => tell({ type: "ready" }), failed);
