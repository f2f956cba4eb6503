// The part of the form for jobs that require something of the nodes that run them.

import { h } from "./dom.js";
import { entry } from "./form.js";
import { labelsOf } from "./words.js";

const MIB = 1024 * 1024;

/** `{element, values(), wrong(), words()}`; what is left empty any node has. */
export function requiring() {
  /** @param {string} id @param {string} label @param {string} unit @param {string} hint @param {number} factor @param {number} least @param {number} most */
  const amount = (id, label, unit, hint, factor, least, most) => entry({
    id, label, unit, hint, inputmode: "decimal",
    read({ value }) {
      const n = Math.round(Number(value) * factor);
      return n >= least * factor && n <= most * factor ? n : new Error(`a number from ${least} to ${most}, or nothing.`);
    },
  });
  /** @param {string} id @param {string} label @param {string} hint */
  const word = (id, label, hint) => entry({
    id, label, hint, spellcheck: "false", autocapitalize: "off",
    read: ({ value }) => (/^[\w./-]{1,64}$/.test(value.trim()) ? value.trim() : new Error("1 to 64 letters, digits, -, _, . or /; or nothing.")),
  });
  const memory = amount("requires-memory", "Memory", "MiB", "A node gives a unit its limit in any case.", MIB, 1, 4096);
  const speed = amount("requires-speed", "Speed", "thousand million a second", "Fuel of a slot, as its node has measured it.", 1e9, 0.001, 1000);
  const disk = amount("requires-disk", "Disk", "MiB", "Space that a node gives a unit.", MIB, 1, 1e9);
  const os = word("requires-os", "System", "As linux, macos or windows.");
  const arch = word("requires-arch", "Processor", "As x86_64 or aarch64.");
  const labels = entry({
    id: "requires-labels", label: "Labels", hint: "Given by donors, as site=graz; several with blanks between.", spellcheck: "false", autocapitalize: "off",
    read({ value }) {
      const { values, fault } = labelsOf(value);
      return values ?? new Error(fault);
    },
  });
  const platform = h("select", { id: "requires-platform" },
    h("option", { value: "" }, "Either"), h("option", { value: "native" }, "Servers"), h("option", { value: "browser" }, "Pages"));
  const fields = /** @type {const} */ ([["memory", memory], ["speed", speed], ["disk", disk], ["os", os], ["arch", arch], ["labels", labels]]);
  const element = h("div", { class: "limits" }, memory.element, speed.element, disk.element,
    h("div", { class: "field" }, h("label", { for: "requires-platform" }, "Servers or pages"), platform),
    os.element, arch.element, labels.element);
  const said = () => fields.filter(([, field]) => field.input.value.trim());
  const asks = () => said().length + (platform.value ? 1 : 0);

  return {
    element, asks,
    /** @returns {Partial<Api.JobRequest>} */
    values() {
      if (!asks()) return {};
      const requires = Object.fromEntries(said().map(([key, field]) => [key, field.read()]));
      return { requires: platform.value ? { ...requires, platform: /** @type {Api.PlatformAsked} */ (platform.value) } : requires };
    },
    /** @returns {[words: string, at: HTMLElement] | null} */
    wrong() {
      for (const [, field] of said()) {
        const value = field.read();
        if (value instanceof Error) return [`${field.label}: ${value.message}`, field.input];
      }
      return null;
    },
    words: () => (asks() ? [...said().map(([, field]) => field.label.toLowerCase()), ...(platform.value ? [platform.selectedOptions[0].text.toLowerCase()] : [])].join(", ") : "nothing"),
  };
}
