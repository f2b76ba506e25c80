// SPDX-License-Identifier: Apache-2.0
// The settings of a chat's requests, their body, and the same request elsewhere.
import { copyButton, element, labelled, select } from "./elements.js";

const number = (name, attributes) => element("input", { type: "number", "data-name": name, step: "any", ...attributes });

export function makeSettings() {
  const model = select([["", "the server's"]], "");
  const fields = {
    temperature: number("temperature", { min: 0, max: 2, placeholder: "the model's" }),
    top_p: number("top_p", { min: 0, max: 1, placeholder: "the model's" }),
    top_k: number("top_k", { step: 1, placeholder: "the model's" }),
    max_tokens: number("max_tokens", { min: 1, step: 1, value: 512 }),
    seed: number("seed", { step: 1, placeholder: "any" }),
    priority: number("priority", { step: 1, placeholder: "0, lower first" }),
  };
  const slo = { ttft_ms: number("ttft_ms", { min: 1, placeholder: "none" }), tbt_ms: number("tbt_ms", { min: 1, placeholder: "none" }) };
  const level = select([["", "none"], ["realtime", "realtime"], ["best_effort", "best effort"]], "");
  level.dataset.name = "class";
  const system = element("textarea", { rows: 3, placeholder: "none" });
  const tools = element("textarea", { rows: 3, "data-name": "tools", spellcheck: "false", placeholder: "none; a JSON list" });
  return { fields, slo, level, model, system, tools };
}

// The panel of the settings; `next` gives the messages that would be sent.
export function settingsPanel(settings, next) {
  const { fields, slo } = settings;
  const pair = (...controls) => element("div", { class: "pair" }, ...controls);
  return element("aside", { class: "settings panel", id: "chat-settings", "aria-label": "Settings of the request" },
    element("h3", {}, "Request"),
    labelled("system message", settings.system),
    pair(labelled("temperature", fields.temperature), labelled("top_p", fields.top_p)),
    pair(labelled("top_k", fields.top_k), labelled("max_tokens", fields.max_tokens)),
    pair(labelled("seed", fields.seed), labelled("priority", fields.priority)),
    labelled("class", settings.level),
    pair(labelled("first token, ms (SLO)", slo.ttft_ms), labelled("gap, ms (SLO)", slo.tbt_ms)),
    labelled("tools", settings.tools),
    element("h3", {}, "The same elsewhere"),
    element("div", { class: "buttons" }, copyButton("Copy as curl", () => asCurl(bodyOf(settings, next()))),
      copyButton("Copy as Python", () => asPython(bodyOf(settings, next())))));
}

const set = (object, name, field) => {
  if (field.value !== "") object[name] = Number(field.value);
};

// The body of a request with these messages. Throws an Error if the tools are no JSON list.
export function bodyOf(settings, messages) {
  const body = { messages: [...messages], stream: true, stream_options: { include_usage: true } };
  const deadlines = {};
  if (settings.system.value !== "") body.messages.unshift({ role: "system", content: settings.system.value });
  if (settings.model.value !== "") body.model = settings.model.value;
  for (const [name, field] of Object.entries(settings.fields)) set(body, name, field);
  for (const [name, field] of Object.entries(settings.slo)) set(deadlines, name, field);
  if (settings.level.value !== "") body.class = settings.level.value;
  if (Object.keys(deadlines).length > 0) body.slo = deadlines;
  if (settings.tools.value.trim() !== "") body.tools = toolsOf(settings.tools.value);
  return body;
}

function toolsOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the tools are no JSON: ${error.message}`);
  }
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
  const own = ["messages", "temperature", "top_p", "max_tokens", "seed", "tools", "stream", "stream_options"];
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !own.includes(name) && name !== "model"));
  const lines = own.filter((name) => name in body).map((name) => `    ${name}=${pythonOf(body[name])},`);
  if (Object.keys(extra).length > 0) lines.push(`    extra_body=${pythonOf(extra)},`);
  return `from openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(origin().replace(/\/chat.*/, ""))}, api_key="KEY")\n`
    + `answer = client.chat.completions.create(\n    model=${JSON.stringify(body.model ?? "any")},\n${lines.join("\n")}\n)\n`
    + `for chunk in answer:\n    for choice in chunk.choices:\n        print(choice.delta.content or "", end="", flush=True)\n`;
}
