// SPDX-License-Identifier: Apache-2.0
// What if: the traffic of the last minutes is simulated with other policies, and the answer
// says which would have been better, if it can be told. The server simulates, in a process of
// its own; here the question is put and the answer shown, also one that somebody else asked for.
import { send, whyOf } from "./connection.js";
import { element, labelled, panel, select, table } from "./elements.js";
import { duration, percent, short, whole } from "./format.js";

const OBJECTIVES = ["auto", "goodput", "throughput", "ttft", "ttft_p99", "tpot", "tpot_p99", "latency", "latency_p99", "normalised"];
// What is shown first, with a name for people; whatever else an answer has comes after them.
const METRICS = {
  request_goodput: "goodput, requests/s", goodput: "goodput, requests/s", slo_attainment: "attained", mean_e2el_ms: "mean latency", p99_e2el_ms: "P99 latency",
  mean_ttft_ms: "mean TTFT", p99_ttft_ms: "P99 TTFT", max_itl_ms: "longest stall", longest_stall_ms: "longest stall", output_throughput: "tokens/s", throughput: "tokens/s",
  preemptions: "preemptions",
};

// {"slo_attainment": {"realtime": 0.9}} as {"slo_attainment.realtime": 0.9}
function flat(metrics, before = "") {
  return Object.entries(metrics ?? {}).flatMap(([name, value]) =>
    value !== null && typeof value === "object" ? flat(value, `${before}${name}.`) : typeof value === "number" ? [[before + name, value]] : []);
}

function titleOf(name) {
  const [first, ...rest] = name.split(".");
  return [METRICS[first] ?? first.replaceAll("_", " "), ...rest].join(", ");
}

function shown(name, value) {
  if (value === undefined) return "-";
  if (name.includes("attain")) return percent(value);
  if (name.endsWith("_ms")) return duration(value);
  return name === "preemptions" ? whole(value) : short(value);
}

// {"plugins.scheduler": ...} of lines SECTION.KEY=VALUE, as POST /admin/reload takes them.
function settingsOf(lines) {
  const set = {};
  for (const line of lines.split("\n").filter((one) => one.includes("="))) {
    const [, section, key, value] = line.match(/^(.*)\.([^.=]+?)\s*=\s*(.*)$/) ?? [];
    if (section !== undefined) set[section] = { ...set[section], [key]: value };
  }
  return set;
}

// The answer as a table; `apply` is called with a candidate.
function resultOf(result, apply) {
  const rows = [["as it was served", result.real], ["as it runs, simulated", result.simulated],
    ...result.candidates.map((one) => [one.name, one.metrics, one])].map(([name, metrics, one]) => [name, Object.fromEntries(flat(metrics)), one]);
  const found = new Set(rows.flatMap(([, metrics]) => Object.keys(metrics)));
  const order = Object.keys(METRICS), rank = (name) => (order.indexOf(name.split(".")[0]) + order.length + 1) % (order.length + 1);
  const names = [...found].sort((a, b) => rank(a) - rank(b));
  const made = table("The same traffic with each", ["", ...names.map(titleOf), "verdict", ""]);
  made.fill(rows.map(([name, metrics, one]) => [one?.name === result.winner && one ? element("strong", {}, name) : name,
    ...names.map((of) => shown(of, metrics[of])), one?.verdict ?? "",
    one?.settings ? element("button", { type: "button", "aria-label": `Apply ${name}`, onclick: () => apply(one) }, "Apply") : ""]));
  const margin = typeof result.margin === "number" ? ` Simulated and served are ${percent(result.margin)} apart: smaller differences are not told.` : "";
  const verdict = result.winner ? `Best: ${result.winner}.` : "No difference that can be told.";
  return [element("p", {}, element("strong", {}, verdict), margin), element("div", { class: "scroll" }, made)];
}

export function make(section) {
  const policies = element("input", { value: "sarathi, fcfs, srpt, apt+hybrid", spellcheck: "false", autocomplete: "off" });
  const objective = select(OBJECTIVES.map((name) => [name, name.replace("_", " ")]), "auto");
  const go = element("button", { type: "submit", class: "main" }, "What if?");
  const bar = element("progress", { max: 1, value: 0, "aria-label": "How much is simulated", hidden: true });
  const said = element("p", { role: "status" });
  const answer = element("div");
  const hint = "SCHEDULER[+CACHE[+PREDICTOR]][:PARAMETER=VALUES], with commas between: apt+hybrid:late_share=0..0.02:0.01, sarathi:chunk=128..512:128";
  const form = element("form", { class: "settings" }, labelled("candidates", policies), element("p", { class: "quiet", id: "whatif-hint" }, hint),
    labelled("best in (objective)", objective), element("div", { class: "buttons" }, go, bar));
  policies.setAttribute("aria-describedby", "whatif-hint");
  section.append(element("p", { class: "quiet" }, "Which policy would have served the last minutes best? Their arrivals and lengths (never the text) are simulated with each ",
    "candidate, in a process of its own; what really ran is simulated too, and only differences larger than the error of that count."),
    panel("Question", form, said), panel("Answer", answer));

  let asking = null; // the timer of the next look

  function say(text, good) {
    said.className = good ? "quiet" : "bad";
    if (said.textContent !== text) said.textContent = text;
  }

  async function apply(candidate) {
    const reply = await send("POST", "admin/reload", { set: settingsOf(candidate.settings) });
    if (reply.ok) say(`${candidate.name} runs, until the next reload of the file (see Policies).`, true);
    else say(`Refused, nothing has changed: ${await whyOf(reply)}`, false);
  }

  function show(state) {
    const running = state.state === "running";
    bar.hidden = !running;
    bar.value = state.progress ?? 0;
    go.disabled = running;
    if (running) say(`simulating: ${percent(state.progress ?? 0)}`, true);
    else if (state.state === "failed") say(`Failed: ${state.error ?? state.why ?? "the server's log says why"}`, false);
    else say(state.state === "none" ? "Nothing has been asked." : "", true);
    if (state.result) answer.replaceChildren(...resultOf(state.result, apply));
    else if (state.state !== "running") answer.replaceChildren(element("p", { class: "quiet" }, "None yet."));
  }

  async function look() {
    clearTimeout(asking);
    const reply = await send("GET", "admin/whatif").catch(() => null);
    if (reply === null) return;
    if (reply.status === 404 || reply.status === 501) {
      go.disabled = true;
      say("Not available: this server has no what-if.", false);
      return;
    }
    if (!reply.ok) {
      say(await whyOf(reply), false);
      return;
    }
    const state = await reply.json();
    show(state);
    if (state.state === "running" && !section.hidden) asking = setTimeout(look, 1000);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    const wanted = { policies: policies.value.split(/[,\s]+/).filter((one) => one !== ""), objective: objective.value };
    const reply = await send("POST", "admin/whatif", wanted).catch(() => null);
    if (reply?.ok) {
      show({ state: "running", progress: 0 });
      asking = setTimeout(look, 500);
    } else {
      go.disabled = false;
      say(reply === null ? "the server does not answer" : `Refused: ${await whyOf(reply)}`, false);
    }
  });

  return {
    shown: look,
    back() {
      if (!section.hidden) look();
    },
  };
}
