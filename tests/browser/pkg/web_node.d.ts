// What `www/serve-node.js` uses of the node's module: web/node/src/lib.rs.

import type { Knows, Left, Policy, ToNode } from "../../../www/messages.js";

/** Loads the module. */
export default function init(): Promise<unknown>;

export class WebNode {
  /** Throws an error in words when the node cannot start. */
  constructor(
    gateway: string, slots: number, name: string | undefined, invite: string | undefined, left: Left | null | undefined,
    policy: Policy, knows: Knows, speed: number | undefined, channels: boolean,
  );
  set_slots(n: number): void;
  set_policy(policy: Policy): void;
  set_known(knows: Knows): void;
  /** Takes the page's word on an end of a data channel. */
  channel(message: Extract<ToNode, { type: "rtc" }>): void;
  stop(patience_ms: number): void;
}

/** Faults of these settings: a JSON list of `Fault`. */
export function faults_of(policy: Policy): string;
