// Credit: what this node's account has, where it came from and went, and what can be done with it.

import * as api from "./api.js";
import { copyButton, h, renew, replace, setHidden, setText } from "./dom.js";
import { entry, form } from "./form.js";
import { ago, capital, count, exactTime, plural, shortNode } from "./format.js";
import { credits, inCredits, microOf } from "./money.js";
import { balancePlot } from "./plot.js";
import { showFigures } from "./progress.js";
import { readable } from "./text.js";

/** @import { Child, Row } from "./dom.js" */
/** @import { View } from "./live.js" */

/** @typedef {(id: string) => string} Named what a node is called */

/** Newest lines of the statement that are shown and drawn. Our choice: what a person looks through. */
const LINES = 200;

/** @returns {View} */
export function walletView() {
  const figures = h("dl", { class: "figures" });
  const trouble = h("p", { class: "note warning", role: "status", hidden: true });
  const plot = balancePlot();
  const body = h("tbody");
  const table = h("table", { class: "rows statement" },
    h("caption", { class: "sr-only" }, "Statement, newest first"),
    h("thead", null, h("tr", null, ["What for", "Amount", "Balance", "When"].map((title, i) => h("th", { scope: "col", class: i ? "right" : null }, title)))),
    body);
  const older = h("p", { class: "soft pad" });
  const list = h("div", { class: "card" }, table, older);
  const none = h("p", { class: "soft" }, "Nothing has come or gone yet. Credit comes with an invite of the bank’s operator, from another node, or from work that was paid for.");
  /** @type {Map<string, string>} */
  const names = new Map();
  const known = h("datalist", { id: "known-nodes" });
  const hands = h("div", { class: "hands" }, redeemPart(), sendPart());
  const bank = h("section", { class: "card pad", "aria-labelledby": "bank-title", hidden: true });
  const account = h("div", { class: "copyable" });
  const element = h("div", { class: "page" },
    h("div", null, h("h1", null, "Wallet"), h("p", { class: "soft" }, "What this node’s account has. It pays for places that its jobs buy, and gets what its own slots earn.")),
    trouble,
    h("section", { class: "card pad", "aria-label": "Balance" }, figures, plot.element, account),
    hands, bank,
    h("section", { "aria-labelledby": "statement" }, h("h2", { id: "statement" }, "Statement"), list, none), known);
  list.hidden = none.hidden = true;

  function redeemPart() {
    const code = entry({
      id: "invite-code", label: "Code", hint: "32 digits and letters. Whoever shows it first has the credit.", maxlength: "64", spellcheck: "false", autocapitalize: "off", class: "mono",
      read: ({ value }) => value.trim() || new Error("Paste the code first."),
    });
    return part("redeem", "Redeem an invite", form({
      label: "Redeem an invite", entries: { code }, action: "Redeem", busy: "Asking the bank…",
      async send({ code: typed }) {
        show(await api.redeem(typed));
        code.input.value = "";
        return "Redeemed; the credit is yours.";
      },
    }));
  }

  function sendPart() {
    const to = entry({
      id: "send-to", label: "To", hint: "A node’s id, 64 digits and letters.", list: "known-nodes", spellcheck: "false", autocapitalize: "off", class: "mono",
      read: ({ value }) => value.trim() || new Error("Say to whom: a node’s id."),
    });
    const amount = amountEntry("send-amount");
    return part("send", "Send credit", form({
      label: "Send credit", entries: { to, amount }, action: "Send", busy: "Asking the bank…",
      async send({ to: node, amount: micro }) {
        show(await api.sendCredit(node, micro));
        amount.input.value = "";
        return `Sent ${inCredits(micro)} to ${named(node)}.`;
      },
    }));
  }

  const sum = h("p", { class: "soft" });
  const made = h("div", { class: "made", role: "status" });
  const worth = amountEntry("invite-amount");
  bank.append(h("h2", { id: "bank-title" }, "The bank"), sum, form({
    label: "Make an invite", entries: { amount: worth }, action: "Make an invite", busy: "Writing it down…", more: [made],
    async send({ amount }) {
      const { code } = await api.invite(amount);
      replace(made, h("p", null, `For whoever redeems it first, ${inCredits(amount)}. Copy it now: it is not shown again.`),
        h("div", { class: "row" }, h("code", { class: "command", id: "invite-made" }, code), copyButton(code)));
      worth.input.value = "";
      return "Made.";
    },
  }));

  /** @type {Named} */
  const named = (id) => names.get(id) || shortNode(id);

  /** @param {Api.Wallet} wallet */
  function show(wallet) {
    const { balance, held, pending, statement } = wallet;
    const sums = wallet.sum ?? null;
    const isBank = sums !== null;
    showFigures(figures, [
      ["Balance", inCredits(balance)],
      ["Held", inCredits(held), "Put aside for places that were bought and are not settled yet."],
      ["Waiting for the bank", plural(pending, "order"), "Orders that it has not answered yet."],
      ["Bank", isBank ? "this node" : named(wallet.bank), wallet.bank],
    ]);
    if (account.dataset.node !== wallet.node) {
      account.dataset.node = wallet.node;
      replace(account, h("span", null, "Account"), h("code", { class: "command" }, wallet.node), copyButton(wallet.node));
    }
    setHidden(plot.element, statement.length === 0);
    if (statement.length) plot.draw(statement);
    setHidden(list, statement.length === 0);
    setHidden(none, statement.length > 0);
    const newest = statement.map((line, i) => ({ ...line, number: wallet.first + i })).reverse();
    renew(body, newest, (line) => line.number, () => lineRow(named));
    const gone = wallet.all - statement.length;
    setText(older, gone > 0 ? `${count(gone)} older are not shown. “manyhands wallet show --lines N” lists more.` : "");
    setHidden(older, gone <= 0);
    setHidden(bank, !isBank);
    setText(sum, isBank ? `This gateway is the bank. All accounts, what is held and what was ever made sum to ${credits(sums)}${sums === 0 ? ", as they must." : ": the books are wrong, since it has to be 0."}` : "");
  }

  return {
    title: "Wallet",
    element,
    stream: "/events",
    onEvent: (name) => name !== "wallet",
    async load(signal) {
      if (!names.size) await meet(names, known, signal);
      try {
        show(await api.wallet(LINES, signal));
        setHidden(trouble, true);
      } catch (error) {
        // No bank, or one that is away: what is shown stays, and it may come.
        if (!(error instanceof api.ApiError) || error.status !== 503) throw error;
        setText(trouble, `${error.detail ? capital(error.detail) : error.message}.`);
        setHidden(trouble, false);
      }
    },
  };
}

/**
 * Names are a help only: the wallet is shown without them, too.
 * @param {Map<string, string>} names
 * @param {Element} list
 * @param {AbortSignal} signal
 */
async function meet(names, list, signal) {
  try {
    const nodes = await api.nodes(signal);
    for (const node of nodes) names.set(node.id, node.name || node.short);
    replace(list, nodes.filter((node) => !node.me).slice(0, LINES).map((node) => h("option", { value: node.id }, node.name || node.short)));
  } catch (error) {
    if (signal.aborted) throw error;
  }
}

/** @param {string} id @param {string} title @param {Child} content */
const part = (id, title, content) =>
  h("section", { class: "card pad", "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), content);

/** @param {string} id */
const amountEntry = (id) => entry({
  id, label: "Amount", unit: "credits", inputmode: "decimal", hint: "Up to six digits behind the point.", read: ({ value }) => microOf(value),
});

/** Lines about this node's own jobs; what it earned was another's. */
const OWN = new Set(["held", "returned", "space_held", "space_returned"]);

/**
 * Reason of a line, in words.
 * @param {Api.StatementLine} line
 * @param {Named} named
 */
function whyWords({ why, with: party, unit }, named) {
  const other = party ?? "";
  const at = unit === null || unit === undefined ? "" : ` unit ${count(unit)}`;
  switch (why) {
    case "invite": return "Invite redeemed";
    case "minted": return "New credit from the bank";
    case "sent": return `Sent to ${named(other)}`;
    case "received": return `Came from ${named(other)}`;
    case "held": return `Put aside for${at}`;
    case "returned": return `Not used, came back from${at}`;
    case "earned": return `Earned with${at}`;
    case "space_held": return `Put aside for space${at && ` of${at}`}`;
    case "space_returned": return `Not used, came back of space${at && ` of${at}`}`;
    case "kept": return at ? `Earned by keeping${at}` : "Earned by keeping a file";
    case "fee": return `For the market, from the sale of${at}`;
    default: return why;
  }
}

/** @param {Named} named @returns {Row<Api.StatementLine>} */
function lineRow(named) {
  const why = h("span", { class: "name" });
  const of = h("span", { class: "small" });
  const amount = h("td", { class: "right number", "data-label": "Amount" });
  const balance = h("td", { class: "right number", "data-label": "Balance" });
  const when = h("time");
  return {
    element: h("tr", null, h("th", { scope: "row" }, why, of), amount, balance, h("td", { class: "right", "data-label": "When" }, when)),
    update(line) {
      setText(why, whyWords(line, named));
      if (line.with) why.title = readable(line.with);
      if (line.file && !of.textContent) setText(of, `file ${line.file.slice(0, 12)}…`);
      if (line.job && !of.textContent) {
        const words = `job ${line.job.slice(0, 8)}`;
        replace(of, OWN.has(line.why) ? h("a", { href: `#/jobs/${encodeURIComponent(line.job)}` }, words) : words);
      }
      setText(amount, `${line.amount > 0 ? "+" : ""}${credits(line.amount)}`);
      setText(balance, credits(line.balance));
      setText(when, ago(line.at));
      when.dateTime = line.at;
      when.title = exactTime(line.at);
    },
  };
}
