// What some browsers have and TypeScript's own description of the DOM has not.

interface BatteryManager extends EventTarget {
  readonly charging: boolean;
  readonly level: number;
}

declare class IdleDetector extends EventTarget {
  static requestPermission(): Promise<"granted" | "denied">;
  readonly userState: "active" | "idle" | null;
  start(options: { threshold: number; signal: AbortSignal }): Promise<void>;
}

interface Navigator {
  getBattery(): Promise<BatteryManager>;
}
