// What `www/submitting-worker.js` uses of the module with all services: web/node/src/lib.rs.

import type { ToNode, Wanted } from "../../../www/messages.js";
import * as node from "./web_node.js";

/** Loads the module. */
export default function init(): Promise<unknown>;

export class WebNode extends node.WebNode {
  submit(n: number, job: Wanted, program: Uint8Array, input: Uint8Array): void;
  cancel(job: string): void;
  forget(job: string): void;
  results(n: number, job: string, from: number, limit: number, most: number): void;
  redeem(n: number, code: string): void;
}

export const faults_of: typeof node.faults_of;

/** An end of a data channel without a node. */
export class LinkEnd {
  constructor();
  id(): string;
  open(peer: string, offers: boolean, leads: boolean): void;
  take(words: Uint8Array): void;
  channel(message: Extract<ToNode, { type: "rtc" }>): void;
}
