// SPDX-License-Identifier: Apache-2.0
// A chat with the model: the conversation, and the composer below it. A conversation is a
// session of the server (x-session-id), so that its beginning is still in the cache.
import { compare } from "./compare.js";
import { ask, receive, watch } from "./connection.js";
import { element, labelled } from "./elements.js";
import { pictures } from "./images.js";
import { answer, question } from "./message.js";
import { bodyOf, makeSettings, settingsPanel } from "./request.js";

const WIDE = "(min-width: 64rem)"; // room for the settings beside the conversation
const EXAMPLES = ["List five animals.", "Write a function in C that reverses a string.", "What is a KV cache?"];

const newSession = () => `console-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;

// A message's content, with pictures as OpenAI has them.
const contentOf = (text, images) =>
  images.length === 0 ? text : [...images.map(({ address }) => ({ type: "image_url", image_url: { url: address } })), { type: "text", text }];

// Makes a button show and hide an element.
function toggles(button, shown, open) {
  const set = (is) => {
    shown.hidden = !is;
    button.setAttribute("aria-expanded", String(is));
  };
  button.setAttribute("aria-controls", shown.id);
  button.addEventListener("click", () => set(shown.hidden));
  set(open);
  return set;
}

// The models of /v1/models, and whether they take pictures.
async function look(settings, images, sides) {
  const { data } = await ask("GET", "v1/models").catch(() => ({ data: [] }));
  const chosen = settings.model.value;
  settings.model.replaceChildren(element("option", { value: "" }, data.length === 1 ? data[0].id : "the server's"),
    ...(data.length > 1 ? data : []).map((model) => element("option", { value: model.id, selected: model.id === chosen }, model.id)));
  sides.models(data.map((model) => model.id));
  const props = await ask("GET", "props").catch(() => null);
  images.on(props?.modalities?.vision === true);
}

export function make(section) {
  const settings = makeSettings();
  const inner = element("div", { class: "inner" });
  const list = element("div", { class: "messages", role: "log", "aria-label": "The conversation", tabindex: 0 }, inner);
  const prompt = element("textarea", { rows: 2, placeholder: "Say something", "aria-label": "Message" });
  const go = element("button", { type: "submit", class: "main" }, "Send");
  const stop = element("button", { type: "button", hidden: true }, "Stop");
  const clear = element("button", { type: "button" }, "New chat");
  const compareButton = element("button", { type: "button", "aria-pressed": "false" }, "Side by side");
  const settingsButton = element("button", { type: "button" }, "Settings");
  const said = element("p", { class: "quiet", role: "status" });
  const messages = [];
  let running = null, session = newSession(), last = null; // last: the last answer

  const say = (text, bad = false) => {
    said.textContent = text;
    said.className = bad ? "bad" : "quiet";
  };
  const images = pictures(section, (text) => say(text, true));
  const waiting = () => (prompt.value.trim() === "" && images.list.length === 0 ? [] : [{ role: "user", content: contentOf(prompt.value.trim(), images.list) }]);
  const panel = settingsPanel(settings, () => [...messages, ...waiting()]);
  const form = element("form", { class: "ask" }, images.root, prompt, element("div", { class: "buttons" }, go, stop, said));
  const sides = compare(settings);
  const talk = element("div", { class: "talk" }, list, form);
  const bar = element("div", { class: "bar" }, labelled("model", settings.model), element("div", { class: "buttons" }, clear, compareButton, settingsButton));
  section.append(bar, element("div", { class: "desk" }, talk, sides.root, panel));
  const settingsOpen = toggles(settingsButton, panel, window.matchMedia(WIDE).matches);
  window.matchMedia(WIDE).addEventListener("change", (event) => settingsOpen(event.matches));

  // Follows the end of the conversation, unless the reader has gone up.
  new ResizeObserver(() => {
    if (list.scrollHeight - list.scrollTop - list.clientHeight < 160) list.scrollTop = list.scrollHeight;
  }).observe(inner);

  function welcome() {
    const example = (text) => element("button", { type: "button", onclick: () => {
      prompt.value = text;
      prompt.focus();
    } }, text);
    inner.replaceChildren(element("div", { class: "welcome" }, element("p", {}, "What is said here is kept by this page alone, and is gone when it is closed."),
      element("div", { class: "buttons" }, ...EXAMPLES.map(example))));
  }

  function busy(is) {
    go.hidden = is;
    stop.hidden = !is;
  }

  const action = (name, act) => element("button", { type: "button", onclick: act }, name);
  // What can be done with the last answer.
  function actionsOf(shown) {
    const calls = shown.message.tool_calls?.length > 0;
    return [action("Regenerate", again), ...(calls ? [action("Send the results", () => sendResults(shown))] : [])];
  }

  // Asks for an answer. If none comes, `undo` takes back what was added for it: two questions in a
  // row are refused by the templates of many models.
  async function next(undo) {
    const shown = answer();
    last?.end(); // its actions go
    last = shown;
    running = new AbortController();
    busy(true);
    say("waiting for the first token");
    inner.append(shown.root);
    list.scrollTop = list.scrollHeight;
    try {
      await receive(bodyOf(settings, messages), shown.take, { signal: running.signal, headers: { "x-session-id": session } });
      say(`the answer is ${shown.empty() ? "empty" : "complete"}`);
    } catch (error) {
      const stopped = error.name === "AbortError";
      say(stopped ? "stopped" : `refused: ${error.message}`, !stopped);
    }
    running = null;
    busy(false);
    if (shown.root.parentNode === null) return; // another chat was begun
    shown.end(...actionsOf(shown));
    if (!shown.empty()) {
      messages.push(shown.message);
      return;
    }
    shown.root.remove();
    last = null;
    undo();
  }

  // Makes an answer the last one again.
  function keep(shown) {
    last = shown;
    shown.end(...actionsOf(shown));
  }

  function again() {
    if (running !== null) return;
    const before = last;
    messages.pop();
    before.root.remove();
    next(() => {
      messages.push(before.message);
      inner.append(before.root);
      keep(before);
    });
  }

  function sendResults(shown) {
    if (running !== null) return;
    const results = shown.results();
    messages.push(...results);
    next(() => {
      messages.length -= results.length;
      keep(shown);
    });
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [message] = waiting();
    if (running !== null || message === undefined) return;
    if (messages.length === 0) inner.replaceChildren();
    const text = prompt.value.trim(), sent = [...images.list], asked = question(text, sent), before = last;
    messages.push(message);
    inner.append(asked);
    prompt.value = "";
    images.clear();
    next(() => {
      messages.pop();
      asked.remove();
      if (prompt.value === "") prompt.value = text;
      images.put(sent);
      if (before !== null) keep(before);
      else if (messages.length === 0) welcome();
    });
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  stop.addEventListener("click", () => running?.abort());
  clear.addEventListener("click", () => {
    running?.abort();
    messages.length = 0;
    last = null;
    session = newSession();
    say("");
    welcome();
  });
  compareButton.addEventListener("click", () => {
    const is = sides.root.hidden;
    sides.root.hidden = !is;
    talk.hidden = is;
    compareButton.setAttribute("aria-pressed", String(is));
    if (is) sides.shown();
  });
  settings.model.addEventListener("change", () => watch(settings.model.value));
  welcome();
  look(settings, images, sides); // also for those who may chat only, whom no event reaches
  return { back: () => look(settings, images, sides) };
}
