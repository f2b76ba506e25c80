// SPDX-License-Identifier: Apache-2.0
// The messages of a conversation as elements. An answer grows while it comes: its thoughts and
// its calls of tools are folded, and its text is drawn as Markdown.
import { copyButton, element } from "./elements.js";
import { markdown } from "./markdown.js";
import { gapsOf, makeTimes } from "./times.js";

// Calls `draw` soon, and less often the longer it takes, so that a long answer does not block the page.
function eventually(draw) {
  let timer = 0, took = 0;
  const now = () => {
    clearTimeout(timer);
    timer = 0;
    const began = performance.now();
    draw();
    took = performance.now() - began;
  };
  const soon = () => {
    if (timer === 0) timer = setTimeout(now, 40 + 8 * took);
  };
  return { now, soon };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function pictureOf(address, name) {
  return element("img", { src: address, alt: name, class: "sent" });
}

// What the user says, with pictures as data: addresses.
export function question(text, pictures = []) {
  return element("article", { class: "message user", "aria-label": "You" }, ...pictures.map((one) => pictureOf(one.address, one.name)),
    element("div", { class: "text" }, text));
}

// A call of a tool, folded, with a field for its result.
function callOf(call) {
  const result = element("textarea", { rows: 2, "aria-label": `Result of ${call.function.name}`, placeholder: "its result, to send back" });
  const words = element("pre", { tabindex: 0, "aria-label": "arguments" });
  const name = element("code");
  const root = element("details", { class: "folded call" }, element("summary", {}, "calls ", name), words, result);
  const draw = () => {
    name.textContent = call.function.name;
    words.textContent = pretty(call.function.arguments);
  };
  return { root, draw, result };
}

// An answer: take() adds the data of an event; `message` is what is sent with the next request.
export function answer(label = "Answer") {
  const message = { role: "assistant", content: "" };
  const times = makeTimes();
  const thinking = element("div", { class: "text" });
  const thought = element("details", { class: "folded thought", hidden: true }, element("summary", {}, "thoughts"), thinking);
  const calls = element("div"), text = element("div", { class: "text" }), foot = element("p", { class: "times quiet" }), more = element("div");
  const root = element("article", { class: "message assistant", "aria-label": label, "aria-busy": "true" }, thought, text, calls, foot, more);
  const made = []; // elements of the calls
  let thoughts = "", summary = thought.firstChild;

  const drawing = eventually(() => {
    text.replaceChildren(...markdown(message.content));
    thinking.textContent = thoughts;
    thought.hidden = thoughts === "";
    summary.textContent = root.ariaBusy === "true" && message.content === "" ? "thinking \u2026" : "thoughts";
    made.forEach((call) => call.draw());
    foot.textContent = times.told();
  });

  function takeCall(piece) {
    message.tool_calls ??= [];
    let call = message.tool_calls[piece.index ?? 0];
    if (call === undefined) {
      call = { id: "", type: "function", function: { name: "", arguments: "" } };
      message.tool_calls.push(call);
      made.push(callOf(call));
      calls.append(made[made.length - 1].root);
    }
    call.id ||= piece.id ?? "";
    call.function.name += piece.function?.name ?? "";
    call.function.arguments += piece.function?.arguments ?? "";
  }

  function take(data) {
    if (data.error) throw new Error(data.error.message);
    const delta = data.choices?.[0]?.delta ?? {};
    const thinks = delta.reasoning_content ?? delta.reasoning ?? "";
    thoughts += thinks;
    message.content += delta.content ?? "";
    for (const piece of delta.tool_calls ?? []) takeCall(piece);
    if (delta.content || thinks || delta.tool_calls) times.note();
    if (data.usage) times.usage(data.usage);
    drawing.soon();
  }

  // The answer has ended; `actions` are buttons.
  function end(...actions) {
    root.ariaBusy = "false";
    drawing.now();
    const gaps = times.gaps().length > 0 ? gapsOf(times) : null;
    const how = gaps === null ? [] : [element("details", { class: "how" }, element("summary", {}, "gaps"), gaps)];
    how[0]?.addEventListener("toggle", () => how[0].open && gaps.draw());
    more.replaceChildren(element("div", { class: "buttons" }, copyButton("Copy", () => message.content), ...actions), ...how);
  }

  // The messages of the tools, with the results that were filled in.
  const results = () => (message.tool_calls ?? []).map((call, i) => ({ role: "tool", tool_call_id: call.id, content: made[i].result.value }));
  const empty = () => message.content === "" && thoughts === "" && made.length === 0;
  return { root, message, times, take, end, results, empty };
}
