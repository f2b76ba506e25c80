// SPDX-License-Identifier: Apache-2.0
// The frame: which view is shown, the API key, and the stream that feeds the views. A view is
// a module with make(section), which returns {figures, queues, lives, shown}, all optional:
// the handlers of each event, and of the moment when the view is shown.
import { switchBy } from "./colours.js";
import { follow, key, keyWanted } from "./connection.js";
import * as chat from "./chat.js";
import * as now from "./now.js";
import * as queues from "./queues.js";
import * as sessions from "./sessions.js";
import * as policies from "./policies.js";
import * as whatif from "./whatif.js";

const by = (id) => document.getElementById(id);
const views = {};
for (const [name, view] of Object.entries({ chat, now, queues, sessions, policies, whatif })) views[name] = view.make(by(name));

views.policies.onNames((names) => views.now.policies(names));
views.policies.onKnown((known) => views.whatif.known(known));

// ---- which view is shown ---------------------------------------------------------------

function show() {
  const name = location.hash.slice(1) in views ? location.hash.slice(1) : "chat";
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = name;
  document.title = `${document.getElementById(`${name}-title`).textContent} - llmserve`;
  views[name].shown?.();
}
window.addEventListener("hashchange", show);
switchBy(by("colours"));
window.addEventListener("colours", () => {
  for (const view of Object.values(views)) view.shown?.(); // pictures are drawn in the new colours
});

// ---- the key ---------------------------------------------------------------------------

const dialog = by("key-dialog");
let declined = false; // who closes the dialog is not asked again by itself

function askForKey() {
  if (dialog.open) return; // every refusal asks: what is being typed stays
  by("key").value = key.get();
  dialog.showModal();
}
keyWanted.addEventListener("wanted", () => {
  if (!declined) askForKey();
});
by("change-key").addEventListener("click", askForKey);
dialog.addEventListener("close", () => {
  declined = dialog.returnValue !== "use";
  if (declined) return;
  key.set(by("key").value.trim());
  views.chat.back();
});

// ---- the stream ------------------------------------------------------------------------

const server = by("server");
let troubled = true;

function say(text, away) {
  if (server.textContent !== text) server.textContent = text; // it is read aloud when it changes
  server.classList.toggle("away", away);
}

function onEvent(name, data) {
  if (name === "figures") {
    if (troubled) for (const view of Object.values(views)) view.back?.();
    troubled = false;
    say(data.state === "ok" ? data.model : `${data.model}: ${data.state} ${data.why}`, data.state !== "ok");
  }
  for (const view of Object.values(views)) view[name]?.(data);
}

function onTrouble(why) {
  if (why === null) return;
  troubled = true;
  say(why, true);
}

show();
follow(onEvent, onTrouble);
