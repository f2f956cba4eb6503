// The dashboard's frame: routes by the address's hash, the token, connection and errors.

import { ApiError, network } from "./api.js";
import { byId, h, replace, setHidden, setText } from "./dom.js";
import { live } from "./live.js";
import { setToken, takeFromAddress, token, tokenForm } from "./token.js";
import { empty } from "./progress.js";
import { errorText, readable } from "./text.js";

/** @import { Liveness, View } from "./live.js" */

const root = byId("view");
const notice = byId("notice");
const liveness = byId("liveness");
const forget = byId("forget");

/**
 * First part of the hash → view, loaded when it is first opened.
 * @type {Record<string, (id: string) => Promise<View>>}
 */
const VIEWS = {
  "": async () => (await import("./overview.js")).overview(),
  jobs: async (id) => (id ? (await import("./job.js")).jobView(id) : (await import("./jobs.js")).jobsView()),
  nodes: async () => (await import("./nodes.js")).nodesView(),
  market: async () => (await import("./market.js")).marketView(),
  wallet: async () => (await import("./wallet.js")).walletView(),
  files: async () => (await import("./files.js")).filesView(),
  policy: async () => (await import("./policy.js")).policyView(),
  submit: async () => (await import("./submit.js")).submitView(),
};

/** @type {{ close(): void } | null} */
let current = null;
/** @type {string | null} */
let shownHash = null;
/** Counts openings: a view that is loaded when another one was opened since is not shown. */
let opening = 0;

function route() {
  takeFromAddress();
  const [section = "", id = ""] = location.hash.replace(/^#\/?/, "").split("/");
  show(section, id);
}

/** @param {string} section @param {string} id */
async function show(section, id) {
  // A link within the page ("#view") is no route.
  if (section === "view") return root.focus();
  const moved = shownHash !== null && shownHash !== location.hash;
  shownHash = location.hash;
  close();
  say("");
  markSection(section);
  setHidden(forget, !token());
  const load = Object.hasOwn(VIEWS, section) ? VIEWS[section] : null;
  if (!load) {
    setTitle("No such page");
    setText(liveness, "");
    replace(root, empty("There is no such page", h("p", null, h("a", { href: "#/" }, "Go to the overview"))));
    return;
  }
  const mine = opening;
  /** @type {View} */
  let view;
  try {
    view = await load(decode(id));
  } catch (error) {
    if (mine === opening) notLoaded(error);
    return;
  }
  if (mine !== opening) return;
  open(view);
  if (moved) {
    root.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

/** Ends the view that is shown, and the loading of the next one. */
function close() {
  opening += 1;
  current?.close();
  current = null;
}

/**
 * Some browsers keep a module's failure until the page is loaded again, so the button reloads the page.
 * @param {unknown} error
 */
function notLoaded(error) {
  console.error(error);
  setTitle("Not loaded");
  setText(liveness, "");
  replace(root, empty("This page could not be loaded",
    h("p", null, `The gateway may have stopped, or the network to ${location.host} is down. The browser says: ${errorText(error)}`),
    h("p", { class: "row" }, h("button", { type: "button", class: "button primary", onclick: () => location.reload() }, "Reload"))));
}

/** @param {View} view */
function open(view) {
  setTitle(view.title);
  replace(root, view.element);
  const { load } = view;
  if (!load) {
    if (view.needsToken && !token()) return ask(false);
    current = { close: () => view.close?.() };
    return setText(liveness, "");
  }
  let over = false;
  const keeper = live({
    stream: view.stream,
    resting: view.resting,
    async load(signal) {
      const finished = await load(signal);
      say("");
      setTitle(view.title);
      if (finished) keeper.finish();
    },
    onEvent(name, data) {
      const taken = view.onEvent?.(name, data) ?? false;
      setTitle(view.title);
      return taken;
    },
    onState: (state) => setText(liveness, LIVENESS[state]),
    onError(error) {
      if (over) return;
      if (error instanceof ApiError && error.needsToken) return ask(Boolean(token()));
      if (error instanceof ApiError && [400, 404].includes(error.status) && view.missing) {
        keeper.finish();
        return replace(root, view.missing(error));
      }
      say(error instanceof ApiError ? `${error.message.replace(/\.?$/, ".")} What you see is as it was last heard.` : `This page failed: ${errorText(error)}. Reload it; if it fails again, it is worth a report.`);
      if (!(error instanceof ApiError)) console.error(error);
    },
  });
  view.nudge = () => keeper.nudge();
  current = {
    close() {
      over = true;
      keeper.close();
      view.close?.();
    },
  };
}

/** @type {Record<Liveness, string>} */
const LIVENESS = {
  live: "Live",
  polling: "Asking every few seconds",
  resting: "Nothing is under way",
  paused: "Paused while hidden",
  ended: "Final",
};

/** @param {boolean} rejected the token that was used is wrong */
function ask(rejected) {
  close();
  setToken(rejected ? "" : token());
  setHidden(forget, true);
  setTitle("Token");
  setText(liveness, "");
  say("");
  const form = tokenForm({
    rejected,
    onToken(value) {
      setToken(value);
      route();
    },
  });
  replace(root, form);
  form.querySelector("input")?.focus();
}

/** @param {string} words */
function say(words) {
  setText(notice, words);
  setHidden(notice, !words);
}

/** @param {string} title */
function setTitle(title) {
  document.title = readable(`${title} · Manyhands`);
}

/** @param {string} section */
function markSection(section) {
  for (const link of document.querySelectorAll("#sections a")) {
    if (link instanceof HTMLElement && link.dataset.section === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

forget.addEventListener("click", () => {
  setToken("");
  ask(false);
});
addEventListener("hashchange", route);
// A node that is no gateway has no page for donors.
network().then(({ gateway }) => ["donate", "run"].forEach((id) => setHidden(byId(id), !gateway)), () => {});
route();
