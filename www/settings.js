// Every setting of a node's policy: its name in `policy.toml`, what it is called, its unit, its
// default and its sense. The node decides what makes sense together: it refuses in words.

export const DAYS = /** @type {const} */ (["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]);

/**
 * @typedef {typeof DAYS[number]} Day
 * @typedef {{ key: string, label: string, hint: string | null, unit?: string, none?: string }} About
 * @typedef {About & { kind: "yes", usual: boolean }} YesSetting
 * @typedef {About & { kind: "number", unit: string, usual: number | null }} NumberSetting
 * @typedef {About & { kind: "lines", usual: string[], none: string }} LinesSetting
 * @typedef {About & { kind: "days", usual: Partial<Record<Day, string>> }} DaysSetting
 * @typedef {YesSetting | NumberSetting | LinesSetting | DaysSetting} Setting
 */

/**
 * Kinds: "yes" (true or false), "number", "lines" (a list), "days". `none` says what a default of none means.
 * @param {string} key
 * @param {string} label
 * @param {boolean} usual
 * @param {string} hint
 * @returns {YesSetting}
 */
const yes = (key, label, usual, hint) => ({ key, label, kind: "yes", usual, hint });
/**
 * @param {string} key
 * @param {string} label
 * @param {string} unit
 * @param {number | null} usual
 * @param {string | null} hint
 * @param {string} [none]
 * @returns {NumberSetting}
 */
const number = (key, label, unit, usual, hint, none) => ({ key, label, kind: "number", unit, usual, hint, none });
/**
 * @param {string} key
 * @param {string} label
 * @param {string} none
 * @param {string} hint
 * @returns {LinesSetting}
 */
const lines = (key, label, none, hint) => ({ key, label, kind: "lines", usual: [], hint, none });

/** Title, what it is about, settings. @type {[title: string, about: string | null, settings: Setting[]][]} */
export const GROUPS = [
  ["What is shared", null, [
    yes("share_cycles", "Cycles", true, "Whether tasks of others run here at all."),
    yes("share_space", "Space", true, "Whether checkpoints and files of others are kept here. Counts when the node starts."),
  ]],
  ["Hours", "By the node’s clock. Equal hours mean all day; they may reach over midnight.", [
    number("start_hour", "From", "o’clock", 0, "From 0 to 24, with fractions: 22.5 is half past ten in the evening."),
    number("end_hour", "To", "o’clock", 0, "From 0 to 24, with fractions."),
    { key: "days", label: "Other hours on some days", kind: "days", usual: {}, hint: "“all”, “none”, or hours such as 22:00-6:30; empty: as on every day." },
  ]],
  ["Somebody at the computer", "A node sees keys at text terminals only, not in a graphical session.", [
    yes("run_if_user_active", "Work while somebody uses it", true, "Whether anything runs then."),
    number("idle_time_to_run", "Nobody uses it after", "minutes", 3, "Without a key or a mouse for so long."),
    number("suspend_if_no_recent_input", "Sleeps after", "minutes", 0, "Without a key or a mouse for so long nothing runs, so that the computer can sleep; 0: never."),
  ]],
  ["Battery", null, [
    yes("run_on_batteries", "Work on battery", false, "Whether anything runs on a battery."),
    number("battery_charge_min_pct", "Down to a charge of", "%", 90, "Below it nothing runs on battery."),
  ]],
  ["Processors", "“While idle” counts while nobody uses the computer; where it is not set, both are the same.", [
    number("max_ncpus_pct", "Processors used", "% of all", 100, "At least one is."),
    number("niu_max_ncpus_pct", "Processors used while idle", "% of all", null, null, "the same"),
    number("cpu_usage_limit", "Time of each", "%", 100, "With less, they rest in between; tasks that run feel it at once."),
    number("niu_cpu_usage_limit", "Time of each while idle", "%", null, null, "the same"),
    number("suspend_cpu_usage", "Stops when others take", "% of all", 0, "By other programs, mean of ten seconds; 0: whatever they take. Tasks have the lowest priority anyway."),
    number("niu_suspend_cpu_usage", "Stops while idle when others take", "% of all", null, null, "the same"),
  ]],
  ["Memory", "Of all tasks together. Where it is short there are fewer slots.", [
    number("ram_max_used_busy_pct", "While somebody uses it", "%", 50, "Of the computer’s memory."),
    number("ram_max_used_idle_pct", "While nobody does", "%", 90, "Of the computer’s memory."),
  ]],
  ["Space for others", "For programs, inputs, checkpoints and files of others; the least of the three holds. Counts when the node starts.", [
    number("disk_max_used_gb", "At most", "GB", null, "10⁹ bytes.", "no bound of its own"),
    number("disk_max_used_pct", "Share of the disk", "% of the disk", 90, "Of the disk that the data folder is on."),
    number("disk_min_free_gb", "Always left free", "GB", 1, "Less than that, and other programs begin to fail."),
  ]],
  ["Which tasks", "What was taken before a change is kept.", [
    number("max_task_seconds", "Longest time limit", "seconds", null, "A task that may take longer goes elsewhere. 3,600 is what tasks have unless their submitter says otherwise.", "no bound"),
    number("max_task_memory_mb", "Most memory", "MiB", null, "A task that may use more goes elsewhere. 256 is usual.", "as much as the node gives"),
    lines("allowed_submitters", "Only work from", "everybody", "Node ids, one a line. If there are any, nobody else’s work is taken; this node’s own jobs always are."),
  ]],
  ["Connections", "Whom this node connects to, and for whom it passes on.", [
    lines("refused_peers", "Refused nodes", "nobody", "They are not connected to. Node ids, one a line."),
    lines("refused_addresses", "Refused addresses", "nobody", "With their length, as in 10.0.0.0/8, one a line."),
    yes("direct_connections", "Direct connections", true, "With nodes that cannot be dialled, such as tabs, by data channels. They learn this node’s address."),
    number("relay_mb_per_s", "Passes on for others", "MB/s", 10, "What nodes that cannot connect directly write to each other, by way of this node; it cannot read it. 0: nothing."),
  ]],
  ["Prices", "For markets, in micro-credits (µcr) for 10⁹ fuel.", [
    number("marginal_cost", "What it costs you", "µcr", 1, "At least 1."),
    number("min_price", "Least that is asked", "µcr", 0, "0: gifts too. Above 0, nothing that pays less is taken."),
    number("gift_share_pct", "Kept for gifts", "% of the slots", 0, "The rest does paid work first."),
  ]],
];

/** A default, in words. @param {Setting} setting */
export function usualWords(setting) {
  const { none, unit } = setting;
  if (setting.kind === "yes") return setting.usual ? "yes" : "no";
  if (setting.kind === "number") return setting.usual === null ? none : [setting.usual, unit].join(" ");
  return setting.kind === "days" ? "as on every day" : none;
}
