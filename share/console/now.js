// SPDX-License-Identifier: Apache-2.0
// The server's present state: counts, the cache, the parts of a step's time, the deadlines kept
// and missed, and the policies' own figures.
import { cells } from "./cells.js";
import { chart } from "./chart.js";
import { element, legend, panel, select, labelled, table, tiles } from "./elements.js";
import { duration, percent, short, whole } from "./format.js";
import { meanings } from "./meanings.js";

const SPAN = 300000; // ms that are drawn and judged
const MINUTE = 60000;
const OUTCOMES = ["in time", "first token late", "gap too long", "pace too slow", "end late", "failed"];
const LEVELS = ["none", "realtime", "best_effort"];

// Rates per second, from two events.
function ratesOf(before, after, i) {
  const a = before.instances[i], b = after.instances[i];
  const seconds = Math.max(0.001, (after.time - before.time) / 1000);
  const steps = b.steps.n - a.steps.n, of = (name) => (steps > 0 ? (b.steps[name] - a.steps[name]) / steps / 1e6 : 0);
  const plan = of("plan_ns"), run = of("run_ns");
  return {
    plan, run, place: Math.max(0, of("step_ns") - plan - run), steps: steps / seconds,
    sequences: steps > 0 ? (b.steps.sequences - a.steps.sequences) / steps : 0,
    generated: (b.generated_tokens - a.generated_tokens) / seconds,
    prompt: (b.steps.tokens - a.steps.tokens) / seconds,
  };
}

// Deadlines kept and missed since SPAN ago: the difference of counters; for the time
// before the first event, the requests that had ended are counted.
function makeVerdicts() {
  const seen = []; // [{time, classes: {none: [...]}}]
  const past = []; // [time, class, outcome]
  return {
    clear: () => (seen.length = past.length = 0),
    add(figures) {
      seen.push({ time: figures.time, classes: Object.fromEntries(LEVELS.map((level) => [level, figures.classes[level].slo])) });
      while (seen.length > 2 && seen[0].time < figures.time - SPAN) seen.shift();
    },
    addPast(lives) {
      for (const life of lives) if (life[8] >= 0 && seen.length > 0 && life[10] <= seen[0].time) past.push([life[10], LEVELS[life[2]], life[8]]);
    },
    // Over the last minute and all classes: the fraction of requests whose first token came in
    // time, and of these the fraction whose gaps were short enough; NaN without deadlines.
    attained() {
      const last = seen[seen.length - 1], first = seen.findLast((one) => one.time <= last.time - MINUTE) ?? seen[0];
      const n = OUTCOMES.map((_, i) => LEVELS.reduce((all, level) => all + last.classes[level][i] - first.classes[level][i], 0));
      const begun = sum(n) - n[1] - n[5];
      return { ttft: sum(n) > 0 ? begun / sum(n) : NaN, tbt: begun > 0 ? 1 - n[2] / begun : NaN };
    },
    count(level) {
      const first = seen[0], last = seen[seen.length - 1];
      const counts = last.classes[level].map((n, i) => n - first.classes[level][i]);
      for (const [time, of, outcome] of past) if (of === level && time >= last.time - SPAN) counts[outcome]++;
      return counts;
    },
  };
}

const sum = (list) => list.reduce((a, b) => a + b, 0);

export function make(section) {
  const instance = select([["0", "0"]], "0");
  const choose = element("div", { hidden: true }, labelled("instance", instance));
  const top = tiles();
  const memory = cells();
  const rate = chart(150, [["generated", "decode"]], { span: SPAN, unit: short, title: "tokens/s" });
  const parts = chart(150, [["run", "prefill"], ["place", "paused"], ["plan", "swapped"]], { span: SPAN, stacked: true, unit: duration, title: "time of a step" });
  const attained = chart(150, [["ttft", "prefill"], ["tbt", "decode"]], { span: SPAN, most: 1, unit: percent, title: "attained, of the last minute" });
  const stepTable = table("Average step of the last second", ["plan", "place and commit", "run", "sequences"]);
  const kept = table("Requests with deadlines that ended in the last 5 minutes", ["class", ...OUTCOMES, "attained"]);
  const counts = table("Requests by state", ["class or tenant", "running", "preempted", "waiting"]);
  const figures = element("div", { class: "panel wide" });
  const wide = (made) => (made.classList.add("wide"), made);
  const cache = wide(panel("Cache", memory));
  const rates = panel("Tokens generated", rate);
  const step = panel("Time of a step", parts, legend([["prefill", "run"], ["paused", "place and commit"], ["swapped", "plan"]]), element("div", { class: "scroll" }, stepTable));
  const requests = panel("Requests", element("div", { class: "scroll" }, counts));
  const deadlines = wide(panel("Deadlines", attained, legend([["prefill", "first token in time (TTFT)"], ["decode", "of those, no gap too long (TBT)"]]), element("div", { class: "scroll" }, kept)));
  const idle = element("p", { class: "quiet" }, "No request runs, and none has ended: ask something in Chat.");
  section.append(choose, top, idle, element("div", { class: "panels" }, cache, rates, step, requests, deadlines, figures));

  const verdicts = makeVerdicts();
  const history = [];
  let last = null, queues = null;

  function drawCounts() {
    const of = queues.instances[instance.value];
    const state = (name, i) => of.counts[name]?.[i] ?? 0;
    const rows = LEVELS.map((level, i) => [level === "none" ? "no class" : level.replace("_", " "), state("running", i), state("preempted", i) + state("moving", i), state("waiting", i)]);
    for (const [name, states] of Object.entries(of.tenants)) rows.push([name, states.running ?? 0, (states.preempted ?? 0) + (states.moving ?? 0), states.waiting ?? 0]);
    const some = rows.filter(([, ...states]) => states.some((n) => n > 0));
    counts.fill(some);
    requests.hidden = some.length === 0;
  }

  // The outcomes that some request had, by class.
  function drawKept() {
    const rows = LEVELS.map((level) => [level === "none" ? "no class" : level.replace("_", " "), verdicts.count(level)]).filter(([, n]) => sum(n) > 0);
    const had = OUTCOMES.map((_, i) => i).filter((i) => i === 0 || rows.some(([, n]) => n[i] > 0));
    deadlines.hidden = rows.length === 0;
    kept.heads(["class", ...had.map((i) => OUTCOMES[i]), "attained"]);
    kept.fill(rows.map(([name, n]) => [name, ...had.map((i) => n[i]), percent(n[0] / sum(n))]));
  }

  function drawPolicies(of) {
    const children = [element("h3", {}, "What the policies say")];
    for (const [kind, policy] of Object.entries(of.policies)) {
      const id = `${kind} ${policyNames[kind] ?? ""}`.trim();
      const all = [...Object.entries(policy.figures), ...Object.entries(policy.events).map(([name, n]) => [`${name} (events)`, n])];
      if (all.length === 0) continue;
      const list = tiles();
      list.fill(all.map(([name, value]) => [name, short(value)]));
      children.push(element("h4", {}, id), list, element("p", { class: "quiet" }, meanings[id] ?? "Its README says what they are."));
    }
    figures.replaceChildren(...children);
    figures.hidden = children.length === 1;
  }

  const policyNames = {};
  function draw() {
    if (section.hidden || last === null) return;
    const of = last.instances[instance.value], now = history[history.length - 1]?.values;
    const memoryUsed = 1 - of.memory.device_units_free / Math.max(1, of.memory.device_units);
    const paused = of.preempted + of.recomputed + of.swapped > 0;
    top.fill([["running", whole(of.running)], ["waiting", whole(of.waiting)], ...(paused ? [["preempted", whole(of.preempted)]] : []),
      ["tokens/s", now ? short(now.generated) : "-"], ["steps/s", now ? short(now.steps) : "-"], ["cache in use", percent(memoryUsed)],
      ["ended", whole(last.ended)], ["generation", String(last.generation)]]);
    const ran = of.steps.n > 0;
    idle.hidden = ran;
    rates.hidden = step.hidden = !ran || history.length < 2;
    if (!rates.hidden) {
      rate.draw(history, `tokens generated a second over five minutes, now ${short(now.generated)}`);
      parts.draw(history, `time of a step: run ${duration(now.run)}, place and commit ${duration(now.place)}, plan ${duration(now.plan)}`);
      stepTable.fill([[duration(now.plan), duration(now.place), duration(now.run), short(now.sequences)]]);
    }
    const share = (value) => (Number.isNaN(value) ? "not known" : percent(value));
    const lately = verdicts.attained();
    drawKept();
    attained.draw(history, `attainment of each last minute: of first tokens ${share(lately.ttft)}, of gaps ${share(lately.tbt)}`);
    requests.hidden = queues === null;
    if (queues !== null) {
      memory.draw(of, queues.instances[instance.value], policyNames.cache);
      drawCounts();
    }
    drawPolicies(of);
  }
  instance.addEventListener("change", () => {
    history.length = 0;
    draw();
  });

  return {
    shown: draw,
    back() {
      history.length = 0;
      verdicts.clear(); // another process counts from zero
      last = null;
    },
    figures(data) {
      if (instance.options.length !== data.instances.length)
        instance.replaceChildren(...data.instances.map((of, i) => element("option", { value: String(i) }, `${i}: ${of.role}`)));
      choose.hidden = data.instances.length < 2;
      verdicts.add(data);
      if (last !== null) history.push({ time: data.time, values: { ...ratesOf(last, data, instance.value), ...verdicts.attained() } });
      while (history.length > 0 && history[0].time < data.time - SPAN) history.shift();
      last = data;
      if (queues === null) draw();
    },
    queues(data) {
      queues = data;
      draw();
    },
    lives: (data) => verdicts.addPast(data),
    policies(names) {
      Object.assign(policyNames, names);
    },
  };
}
