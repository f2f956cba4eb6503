// What `www/task-worker.js` uses of a slot's module: web/task/src/lib.rs.

import type { FromSlot, Prepared } from "../../../www/messages.js";

/** Loads the module. */
export default function init(): Promise<unknown>;

/** Each method throws a string in words. */
export class Slot {
  constructor(post: (message: FromSlot, moved: Transferable[]) => void);
  prepare(module: number, program: Uint8Array, form: Uint8Array): Prepared;
  learn(module: number, compiled: WebAssembly.Module, about: Uint8Array): void;
  forget(module: number): void;
  run(module: number, tasks: Uint8Array): void;
  /** Milliseconds until the next turn; negative: not before something is asked. */
  turn(): number;
  snapshot(run: number, stop: boolean): void;
  pause(run: number, paused: boolean): void;
  kill(run: number): void;
  time_up(run: number): void;
  share(percent: number): void;
}
