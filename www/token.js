// The gateway's bearer token: kept for this tab only, never in the address bar or the history.

import { h } from "./dom.js";

const KEY = "manyhands.token";

/** Where a tab's storage is closed to pages, the token lasts until the next reload. */
let inMemory = "";

export function token() {
  try {
    return sessionStorage.getItem(KEY) || inMemory;
  } catch {
    return inMemory;
  }
}

/** @param {string} value */
export function setToken(value) {
  inMemory = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Kept in memory.
  }
}

/** Takes the token of `#token=…` and leaves an address without it. */
export function takeFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  let value = found[1];
  try {
    value = decodeURIComponent(value);
  } catch {
    // A stray percent sign: taken as it stands.
  }
  setToken(value.trim());
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

/**
 * Asks for the token; `rejected` says that the one that was used is wrong, `action` what is next.
 * @param {{ rejected: boolean, action?: string, onToken: (value: string) => void }} about
 */
export function tokenForm({ rejected, action = "Open the dashboard", onToken }) {
  const fault = h("p", { class: "fault", id: "token-fault", role: "alert" });
  const input = h("input", {
    type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true,
    "aria-describedby": "token-hint token-fault",
  });
  const form = h("form", { class: "card ask", novalidate: true },
    h("h1", null, "This gateway asks for its token"),
    h("p", { id: "token-hint", class: "soft" },
      "Jobs, their inputs and their results are for those who hold it. ",
      h("code", { class: "whole-word" }, "manyhands up --gateway"),
      " prints it at its start, in the address of this page, and keeps it in the file ",
      h("code", null, "token"), " of its data folder."),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input, fault),
    h("div", { class: "row" },
      h("button", { type: "submit", class: "button primary" }, action),
      h("a", { class: "button", href: "#/nodes" }, "Only look at the nodes")));
  if (rejected) {
    fault.textContent = "The gateway does not know the token that was used. It may be another gateway’s, or a new one was made since (manyhands token rotate).";
    input.setAttribute("aria-invalid", "true");
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = input.value.trim();
    if (!value || /[^\x21-\x7e]/.test(value)) {
      fault.textContent = value ? "A token has no spaces and no letters outside ASCII. Copy it once more." : "Paste the token first.";
      input.setAttribute("aria-invalid", "true");
      return input.focus();
    }
    onToken(value);
  });
  return form;
}
