// The dashboard's frame: routes by the address's hash, the token, connection and errors.

import { ApiError } from "./api.js";
import { h, replace, setHidden, setText } from "./dom.js";
import { live } from "./live.js";
import { setToken, takeFromAddress, token, tokenForm } from "./token.js";
import { overview } from "./overview.js";
import { nodesView } from "./nodes.js";
import { jobsView } from "./jobs.js";
import { jobView } from "./job.js";
import { marketView } from "./market.js";
import { walletView } from "./wallet.js";
import { filesView } from "./files.js";
import { policyView } from "./policy.js";
import { submitView } from "./submit.js";
import { empty } from "./progress.js";
import { readable } from "./text.js";

const root = document.getElementById("view");
const notice = document.getElementById("notice");
const liveness = document.getElementById("liveness");
const forget = document.getElementById("forget");

/** First part of the hash → view. A view gives `{title, element, …}` as `live` takes it. */
const VIEWS = {
  "": overview,
  jobs: (id) => (id ? jobView(id) : jobsView()),
  nodes: nodesView,
  market: marketView,
  wallet: walletView,
  files: filesView,
  policy: policyView,
  submit: submitView,
};

let current = null;
let shownHash = null;

function route() {
  takeFromAddress();
  const [section = "", id = ""] = location.hash.replace(/^#\/?/, "").split("/");
  show(section, id);
}

function show(section, id) {
  // A link within the page ("#view") is no route.
  if (section === "view") return root.focus();
  const moved = shownHash !== null && shownHash !== location.hash;
  shownHash = location.hash;
  current?.close();
  current = null;
  say("");
  markSection(section);
  setHidden(forget, !token());
  const make = Object.hasOwn(VIEWS, section) ? VIEWS[section] : null;
  if (!make) {
    setTitle("No such page");
    replace(root, empty("There is no such page", h("p", null, h("a", { href: "#/" }, "Go to the overview"))));
    return;
  }
  open(make(decode(id)));
  if (moved) {
    root.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function open(view) {
  setTitle(view.title);
  replace(root, view.element);
  if (!view.load) {
    if (view.needsToken && !token()) return ask(false);
    current = { close: () => view.close?.() };
    return setText(liveness, "");
  }
  let over = false;
  const keeper = live({
    stream: view.stream,
    resting: view.resting,
    async load(signal) {
      const finished = await view.load(signal);
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
      say(error instanceof ApiError ? `${error.message.replace(/\.?$/, ".")} What you see is as it was last heard.` : `This page failed: ${error.message}. Reload it; if it fails again, it is worth a report.`);
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

const LIVENESS = {
  live: "Live",
  polling: "Asking every few seconds",
  resting: "Nothing is under way",
  paused: "Paused while hidden",
  ended: "Final",
};

function ask(rejected) {
  current?.close();
  current = null;
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
  form.querySelector("input").focus();
}

function say(words) {
  setText(notice, words);
  setHidden(notice, !words);
}

function setTitle(title) {
  document.title = readable(`${title} · Manyhands`);
}

function markSection(section) {
  for (const link of document.querySelectorAll("#sections a")) {
    if (link.dataset.section === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

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
route();
