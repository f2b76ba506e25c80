// SPDX-License-Identifier: Apache-2.0
// What if: the server simulates the traffic of the last minutes with other policies, in a process
// of its own, and says which would have been better if the difference is significant. This view
// sends the question and shows the last answer, even if another client asked for it.
import { candidates } from "./candidates.js";
import { send, whyOf } from "./connection.js";
import { element, labelled, legend, panel, select, table } from "./elements.js";
import { duration, percent, short, whole } from "./format.js";
import { gains } from "./gains.js";

const OBJECTIVES = ["auto", "goodput", "throughput", "ttft", "ttft_p99", "tpot", "tpot_p99", "latency", "latency_p99", "normalised", "stall", "met", "preempted"];
// The numbers shown of a report (doc/api.md): path, label, format.
const COLUMNS = [
  ["request_goodput", "goodput, requests/s", short], ["slo_attainment.all", "attained", percent], ["mean_e2el_ms", "mean latency", duration],
  ["p99_e2el_ms", "P99 latency", duration], ["mean_ttft_ms", "mean TTFT", duration], ["max_itl_ms", "longest stall", duration],
  ["output_throughput", "tokens/s", short], ["preemptions", "preemptions", whole],
];
const GROUPS = [["slo_attainment_by_class", "class"], ["slo_attainment_by_tenant", "tenant"]];

const at = (report, path) => path.split(".").reduce((object, name) => object?.[name], report ?? undefined);

// The columns for which at least one report has a number, with the columns by class and tenant.
function columnsOf(reports) {
  const groups = GROUPS.flatMap(([key, kind]) => [...new Set(reports.flatMap((report) => Object.keys(report?.[key] ?? {})))]
    .filter((name) => name !== "none").map((name) => [`${key}.${name}.all`, `attained, ${kind} ${name}`, percent]));
  return [...COLUMNS, ...groups].filter(([path]) => reports.some((report) => typeof at(report, path) === "number"));
}

// Turns lines SECTION.KEY=VALUE into {section: {key: value}}, the form that POST /admin/reload takes.
function settingsOf(lines) {
  const set = {};
  for (const line of lines.split("\n").filter((one) => one.includes("="))) {
    const [, section, key, value] = line.match(/^(.*)\.([^.=]+?)\s*=\s*(.*)$/) ?? [];
    if (section !== undefined) set[section] = { ...set[section], [key]: value };
  }
  return set;
}

// The answer as a table; `apply` is called with a candidate. The first result is the running one.
function resultOf(answer, apply) {
  const [runs, ...others] = answer.results;
  const columns = columnsOf([answer.served, ...answer.results.map(({ report }) => report)]);
  const cells = (report) => columns.map(([path, , text]) => (typeof at(report, path) === "number" ? text(at(report, path)) : "-"));
  const gain = (one) => one.error ?? (typeof one.gain === "number" ? `${one.gain < 0 ? "" : "+"}${(100 * one.gain).toFixed(1)} %${one.told === false ? " ~" : ""}` : "-");
  const better = (one) => one.report && one.told === true && one.gain > 0;
  const button = (one) => (better(one) ? element("button", { type: "button", "aria-label": `Apply ${one.name}`, onclick: () => apply(one) }, "Apply") : "");
  const made = table(`The same traffic with each, and by how much ${answer.objective} would be better`, ["", ...columns.map(([, name]) => name), "better", ""]);
  made.fill([...(answer.served ? [["as it was served", ...cells(answer.served), "", ""]] : []), [`simulated: ${runs.name}, which runs`, ...cells(runs.report), runs.error ?? "", ""],
    ...others.map((one) => [one.name === answer.best ? element("strong", {}, one.name) : one.name, ...cells(one.report), gain(one), button(one)])]);
  const apart = answer.margin_assumed ? `How it was served is not known: differences of less than ${percent(answer.margin)} are not told (~),`
    : `Simulated and served may be ${percent(answer.margin)} apart: smaller differences are not told (~),`;
  const steady = `nor those that would end on a machine ${percent(answer.profile_error)} faster or slower.`;
  const verdict = answer.best ? `Best: ${answer.best}.` : "No difference that can be told.";
  const chart = gains(others, answer.margin ?? 0);
  return { chart, elements: [element("p", {}, element("strong", {}, verdict), ` ${whole(answer.requests)} requests in ${duration(1000 * answer.seconds)}. ${apart} ${steady}`),
    element("h4", {}, `${answer.objective}, better than what runs`), chart, legend([["decode", "better"], ["paused", "worse"], ["kept", "can't be told"], ["free", "margin"]]),
    element("div", { class: "scroll" }, made)] };
}

export function make(section) {
  const chosen = candidates();
  const objective = select(OBJECTIVES.map((name) => [name, name.replace("_", " ")]), "auto");
  const go = element("button", { type: "submit", class: "main" }, "What if?");
  const bar = element("progress", { max: 1, value: 0, "aria-label": "How much is simulated", hidden: true });
  const said = element("p", { role: "status" });
  const answer = element("div");
  const wide = (made) => (made.classList.add("wide"), made);
  const answers = wide(panel("Answer", answer));
  const giveUp = element("button", { type: "button", hidden: true }, "Give up");
  const slos = Object.fromEntries(["ttft", "tpot"].map((name) => [name, element("input", { type: "number", min: 1, placeholder: "each request's own", "data-name": name })]));
  const form = element("form", { class: "question" }, chosen.root,
    element("div", { class: "picker" }, labelled("best in (objective)", objective), labelled("first token within, ms", slos.ttft), labelled("mean gap at most, ms", slos.tpot)),
    element("div", { class: "buttons" }, go, giveUp, bar));
  section.append(element("p", { class: "quiet" }, "Which policy would have served the last minutes best? Their arrivals and lengths (never the text) are simulated with each ",
    "candidate, in a process of its own; what really ran is simulated too, and only differences larger than the error of that count."),
    element("div", { class: "panels" }, wide(panel("Question", form, said)), answers));

  let asking = null; // the timer of the next poll
  let shownOf = "", chart = null; // the answer that is shown, and its chart

  function say(text, good) {
    said.className = good ? "quiet" : "bad";
    if (said.textContent !== text) said.textContent = text;
  }

  async function apply(candidate) {
    const reply = await send("POST", "admin/reload", { set: settingsOf(candidate.settings) }).catch(() => null);
    if (reply === null) say("the server does not answer", false);
    else if (reply.ok) say(`${candidate.name} runs, until the next reload of the file (see Policies).`, true);
    else say(`Refused, nothing has changed: ${await whyOf(reply)}`, false);
  }

  function show(state) {
    const running = state.state === "running";
    bar.hidden = giveUp.hidden = !running;
    bar.value = state.progress ?? 0;
    go.disabled = running;
    if (running) say(`simulating: ${percent(state.progress ?? 0)}`, true);
    else if (state.state === "failed") say(`Failed: ${state.reason}`, false);
    else say(state.state === "none" ? "Nothing has been asked." : "", true);
    if (state.result) showResult(state.result);
    answers.hidden = !state.result;
  }

  // An answer that is shown stays as it is, with the reader's place in it.
  function showResult(result) {
    const text = JSON.stringify(result);
    answers.hidden = false;
    if (text !== shownOf) {
      const made = resultOf(result, apply);
      answer.replaceChildren(...made.elements);
      [shownOf, chart] = [text, made.chart];
    }
    chart.draw();
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
    const wanted = { policies: chosen.list(), objective: objective.value };
    const limits = Object.entries(slos).filter(([, field]) => field.value !== "").map(([name, field]) => [name, Number(field.value)]);
    if (limits.length > 0) wanted.goodput = Object.fromEntries(limits);
    const reply = await send("POST", "admin/whatif", wanted).catch(() => null);
    if (reply?.ok) {
      show({ state: "running", progress: 0 });
      asking = setTimeout(look, 500);
    } else {
      go.disabled = false;
      say(reply === null ? "the server does not answer" : `Refused: ${await whyOf(reply)}`, false);
    }
  });

  giveUp.addEventListener("click", async () => {
    await send("DELETE", "admin/whatif").catch(() => null);
    look();
  });

  return {
    shown: look,
    known: chosen.known,
    back() {
      if (!section.hidden) look();
    },
  };
}
