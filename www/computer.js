// A page's knowledge of its computer that its node cannot have: the battery, and whether somebody is
// at the keys. Only some browsers tell, and what is not told is not guessed.

/** The shortest that browsers look for, ms: nobody has used a computer for that long before they say so. */
const QUIET = 60_000;

/** @import { Knows } from "./messages.js" */

/** Fires "change". `knows` is `{on_battery?, charge_pct?, quiet_since?}` as the node takes it. */
export class Computer extends EventTarget {
  /** @type {Knows} */
  knows = {};
  /** @type {AbortController | null} */
  #watching = null;

  /** Whether this browser could tell that nobody uses the computer. */
  static seesInput = "IdleDetector" in globalThis;
  static seesBattery = "getBattery" in navigator;

  async watchBattery() {
    /** @type {BatteryManager} */
    let battery;
    try {
      battery = await navigator.getBattery();
    } catch {
      return;
    }
    const tell = () => this.#know({ on_battery: !battery.charging, charge_pct: Math.round(battery.level * 100) });
    battery.addEventListener("chargingchange", tell);
    battery.addEventListener("levelchange", tell);
    tell();
  }

  /**
   * Watches for somebody at the keys, or not any more. The browser asks its person, if `ask` and they
   * have just clicked; false if it may not be known.
   * @param {boolean} on
   * @param {boolean} [ask]
   * @returns {Promise<boolean>}
   */
  async watchInput(on, ask) {
    if (!on) {
      this.#watching?.abort();
      this.#watching = null;
      const { quiet_since, ...rest } = this.knows;
      if (quiet_since !== undefined) this.#know(rest, true);
      return true;
    }
    if (this.#watching) return true;
    const watching = (this.#watching = new AbortController());
    try {
      if (ask && (await IdleDetector.requestPermission()) !== "granted") throw new Error("it was not granted");
      const detector = new IdleDetector();
      const tell = () => this.#know({ quiet_since: detector.userState === "idle" ? Date.now() - QUIET : Infinity });
      detector.addEventListener("change", tell);
      await detector.start({ threshold: QUIET, signal: watching.signal });
      tell();
      return true;
    } catch {
      if (this.#watching === watching) this.#watching = null;
      return false;
    }
  }

  /** @param {Knows} more @param {boolean} [instead] of all that was known */
  #know(more, instead = false) {
    this.knows = instead ? more : { ...this.knows, ...more };
    this.dispatchEvent(new Event("change"));
  }
}
