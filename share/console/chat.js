// SPDX-License-Identifier: Apache-2.0
// A chat with the model: streamed, with a client's parameters and the answer's timing.
import { eventsOf, ask, send, whyOf } from "./connection.js";
import { copyButton, element, labelled, picture, colour, select, tiles } from "./elements.js";
import { duration, short } from "./format.js";

const number = (name, attributes) => element("input", { type: "number", "data-name": name, step: "any", ...attributes });

function makeSettings() {
  const model = select([["", "the server's"]], "");
  const fields = {
    temperature: number("temperature", { min: 0, max: 2, placeholder: "the model's" }),
    top_p: number("top_p", { min: 0, max: 1, placeholder: "the model's" }),
    top_k: number("top_k", { step: 1, placeholder: "the model's" }),
    max_tokens: number("max_tokens", { min: 1, step: 1, value: 256 }),
    seed: number("seed", { step: 1, placeholder: "any" }),
    priority: number("priority", { step: 1, placeholder: "0, lower first" }),
  };
  const slo = { ttft_ms: number("ttft_ms", { min: 1, placeholder: "none" }), tbt_ms: number("tbt_ms", { min: 1, placeholder: "none" }) };
  const level = select([["", "none"], ["realtime", "realtime"], ["best_effort", "best effort"]], "");
  level.dataset.name = "class";
  const system = element("textarea", { rows: 2, placeholder: "none" });
  const form = element("div", { class: "settings panel" }, element("h3", {}, "Request"),
    labelled("model", model), labelled("system message", system),
    ...Object.entries(fields).map(([name, field]) => labelled(name, field)),
    labelled("class", level), labelled("first token within, ms (SLO)", slo.ttft_ms),
    labelled("gap at most, ms (SLO)", slo.tbt_ms));
  return { form, fields, slo, level, model, system };
}

const set = (object, name, field) => {
  if (field.value !== "") object[name] = Number(field.value);
};

// The body of a request with these messages.
function bodyOf(settings, messages) {
  const body = { messages: [...messages], stream: true, stream_options: { include_usage: true } };
  const deadlines = {};
  if (settings.system.value !== "") body.messages.unshift({ role: "system", content: settings.system.value });
  if (settings.model.value !== "") body.model = settings.model.value;
  for (const [name, field] of Object.entries(settings.fields)) set(body, name, field);
  for (const [name, field] of Object.entries(settings.slo)) set(deadlines, name, field);
  if (settings.level.value !== "") body.class = settings.level.value;
  if (Object.keys(deadlines).length > 0) body.slo = deadlines;
  return body;
}

// ---- the same request elsewhere ----------------------------------------------------------

const origin = () => new URL("v1/chat/completions", location.href.split("#")[0]).href;

function asCurl(body) {
  const text = JSON.stringify(body, null, 1).replaceAll("'", "'\\''");
  return `curl -N ${origin()} -H 'content-type: application/json' \\\n  -H "authorization: Bearer $API_KEY" -d '${text}'`;
}

const pythonOf = (value) =>
  JSON.stringify(value).replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (word) => ({ true: "True", false: "False", null: "None" })[word] ?? word);

function asPython(body) {
  const own = ["messages", "temperature", "top_p", "max_tokens", "seed", "stream", "stream_options"];
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !own.includes(name) && name !== "model"));
  const lines = own.filter((name) => name in body).map((name) => `    ${name}=${pythonOf(body[name])},`);
  if (Object.keys(extra).length > 0) lines.push(`    extra_body=${pythonOf(extra)},`);
  return `from openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(origin().replace(/\/chat.*/, ""))}, api_key="KEY")\n`
    + `answer = client.chat.completions.create(\n    model=${JSON.stringify(body.model ?? "any")},\n${lines.join("\n")}\n)\n`
    + `for chunk in answer:\n    for choice in chunk.choices:\n        print(choice.delta.content or "", end="", flush=True)\n`;
}

// ---- how an answer came -------------------------------------------------------------------

// Collects the times of an answer's pieces and computes the timing that is shown.
function makeTimes() {
  const times = { began: performance.now(), at: [], tokens: 0, prompt: 0 };
  times.note = () => times.at.push(performance.now());
  times.gaps = () => times.at.slice(1).map((at, i) => at - times.at[i]);
  times.told = () => {
    const gaps = times.gaps();
    const n = times.tokens || times.at.length;
    const seconds = times.at.length > 1 ? (times.at[times.at.length - 1] - times.at[0]) / 1000 : 0;
    return [
      ["first token", times.at.length > 0 ? duration(times.at[0] - times.began) : "-"],
      ["tokens", times.prompt > 0 ? `${n}, prompt ${times.prompt}` : String(n)],
      ["tokens/s", seconds > 0 ? short((n - 1) / seconds) : "-"],
      ["mean gap", gaps.length > 0 ? duration(gaps.reduce((a, b) => a + b) / gaps.length) : "-"],
      ["longest gap", gaps.length > 0 ? duration(Math.max(...gaps)) : "-"],
    ];
  };
  return times;
}

function drawGaps(canvas, gaps) {
  const most = Math.max(1e-9, ...gaps);
  const context = canvas.begin(`gaps between ${gaps.length + 1} pieces of the answer, the longest ${duration(most)}`);
  const width = canvas.clientWidth / Math.max(gaps.length, 60);
  context.fillStyle = colour("decode");
  gaps.forEach((gap, i) => context.fillRect(i * width, 40 * (1 - gap / most), Math.max(width - 0.5, 0.5), 40 * (gap / most)));
}

// ---- the view ------------------------------------------------------------------------------

export function make(section) {
  const settings = makeSettings();
  const list = element("div", { class: "messages", role: "log", "aria-label": "The conversation", tabindex: 0 });
  const prompt = element("textarea", { rows: 3, placeholder: "Say something" });
  const go = element("button", { type: "submit", class: "main" }, "Send");
  const stop = element("button", { type: "button", disabled: true }, "Stop");
  const again = element("button", { type: "button", disabled: true }, "Regenerate");
  const clear = element("button", { type: "button" }, "New chat");
  const said = element("p", { class: "quiet", role: "status" });
  const told = tiles();
  const gaps = picture(40);
  const messages = [];
  let running = null; // aborts the request under way

  const next = () => [...messages, ...(prompt.value.trim() !== "" ? [{ role: "user", content: prompt.value.trim() }] : [])];
  const form = element("form", { class: "ask" }, labelled("Message", prompt),
    element("div", { class: "buttons" }, go, stop, again, clear,
      copyButton("Copy as curl", () => asCurl(bodyOf(settings, next()))), copyButton("Copy as Python", () => asPython(bodyOf(settings, next())))));
  section.append(element("div", { class: "columns" }, element("div", {}, list, form, said, told, gaps), settings.form));

  function bubble(role, text) {
    const made = element("div", { class: `message ${role}` }, text);
    list.append(made);
    list.scrollTop = list.scrollHeight;
    return made;
  }

  function busy(is) {
    go.disabled = is;
    stop.disabled = !is;
    again.disabled = is || messages.length === 0;
  }

  // Adds an event's text to the message and its element.
  function take(data, message, thought, content, times) {
    if (data.error) throw new Error(data.error.message);
    const delta = data.choices?.[0]?.delta ?? {};
    if (delta.reasoning_content) thought.append(delta.reasoning_content);
    if (delta.content) content.append(delta.content);
    if (delta.content || delta.reasoning_content) times.note();
    message.content += delta.content ?? "";
    if (data.usage) [times.tokens, times.prompt] = [data.usage.completion_tokens, data.usage.prompt_tokens];
  }

  async function answer() {
    const message = { role: "assistant", content: "" };
    const thought = element("span", { class: "thought" });
    const content = element("span");
    const shown = bubble("assistant", "");
    const times = makeTimes();
    shown.append(thought, content);
    running = new AbortController();
    busy(true);
    said.textContent = "waiting for the first token";
    const tick = setInterval(() => told.fill(times.told()), 250);
    try {
      const reply = await send("POST", "v1/chat/completions", bodyOf(settings, messages), running.signal);
      if (!reply.ok) throw new Error(await whyOf(reply));
      for await (const event of eventsOf(reply)) {
        if (event.data === "[DONE]") break;
        take(JSON.parse(event.data), message, thought, content, times);
        list.scrollTop = list.scrollHeight;
      }
      said.textContent = "the answer is complete";
      said.className = "quiet";
    } catch (error) {
      said.textContent = error.name === "AbortError" ? "stopped" : `refused: ${error.message}`;
      said.className = error.name === "AbortError" ? "quiet" : "bad";
    }
    clearInterval(tick);
    told.fill(times.told());
    drawGaps(gaps, times.gaps());
    if (message.content !== "") messages.push(message);
    else shown.remove();
    running = null;
    busy(false);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running !== null || prompt.value.trim() === "") return;
    messages.push({ role: "user", content: prompt.value.trim() });
    bubble("user", prompt.value.trim());
    prompt.value = "";
    answer();
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  stop.addEventListener("click", () => running?.abort());
  again.addEventListener("click", () => {
    if (messages[messages.length - 1]?.role === "assistant") {
      messages.pop();
      list.lastElementChild.remove();
    }
    answer();
  });
  clear.addEventListener("click", () => {
    running?.abort();
    messages.length = 0;
    list.replaceChildren();
    told.replaceChildren();
    said.textContent = "";
  });

  async function listModels() {
    const { data } = await ask("GET", "v1/models").catch(() => ({ data: [] }));
    const options = data.map((model) => element("option", { value: model.id }, model.id));
    settings.model.replaceChildren(element("option", { value: "" }, "the server's"), ...options);
  }
  told.fill(makeTimes().told());
  return { back: listModels };
}
