// SPDX-License-Identifier: Apache-2.0
// Two sides on one prompt. Two models of this server answer at once. Two policies of one model
// can't: its server runs one of them for all its clients. With the reader's consent the page
// exchanges the policies for each side, one after the other, and puts back those that ran.
import { ask, key, placeOf, receive, watchedModel } from "./connection.js";
import { element, labelled, select, table } from "./elements.js";
import { duration, short } from "./format.js";
import { answer } from "./message.js";
import { bodyOf } from "./request.js";

const KINDS = ["scheduler", "cache"];
// Copies of a side: a browser has six connections to a server, and one reads events. A copy that
// waits for a connection would have the browser's time in its figures.
const MOST = { policies: 4, models: 2 };
const PLAIN = ["fcfs", "sarathi"]; // what the running scheduler is compared with unless the reader chooses
const mean = (list) => (list.length > 0 ? list.reduce((a, b) => a + b, 0) / list.length : NaN);
const shownOr = (value, text) => (Number.isFinite(value) ? text(value) : "-");

// The pickers of a side; `chosen` is {model} or {scheduler, cache}.
function makeSide(name) {
  const model = select([], ""), kinds = Object.fromEntries(KINDS.map((kind) => [kind, select([], "")]));
  const ofModel = labelled("model", model), ofPolicies = KINDS.map((kind) => labelled(kind, kinds[kind]));
  const body = element("div", { class: "answers" });
  const root = element("section", { class: "side panel", "aria-label": `Side ${name}` }, element("h3", {}, name),
    element("div", { class: "pair" }, ofModel, ...ofPolicies), body);
  const fill = (control, names, value) => control.replaceChildren(...names.map((one) => element("option", { value: one, selected: one === value }, one)));
  const by = (how) => {
    ofModel.hidden = how !== "models";
    for (const one of ofPolicies) one.hidden = how !== "policies";
  };
  const policies = () => Object.fromEntries(KINDS.map((kind) => [kind, kinds[kind].value]));
  return { root, body, model, kinds, fill, by, policies };
}

// What the answers of a side say together.
function figuresOf(answers) {
  const times = answers.map((one) => one.times);
  const gaps = times.flatMap((one) => one.gaps());
  return {
    first: mean(times.map((one) => one.first()).filter(Number.isFinite)), worst: Math.max(...times.map((one) => one.first())),
    rate: times.reduce((sum, one) => sum + (one.rate() || 0), 0), gap: mean(gaps), longest: Math.max(...gaps),
  };
}

export function compare(settings) {
  const sides = [makeSide("A"), makeSide("B")];
  const how = select([["policies", "policies, one after the other"], ["models", "models, both at once"]], "policies");
  const copies = element("input", { type: "number", min: 1, max: MOST.policies, step: 1, value: MOST.policies });
  const consent = element("input", { type: "checkbox", id: "consent" });
  const agree = element("p", { class: "consent" }, consent, element("label", { for: "consent" },
    " Exchange the policies of this server for all its clients until both sides have answered; then those that run now come back."));
  const prompt = element("textarea", { rows: 2, placeholder: "One prompt for both", "aria-label": "Prompt for both" });
  const go = element("button", { type: "submit", class: "main" }, "Compare");
  const said = element("p", { class: "quiet", role: "status" });
  const sum = table("All copies of each side; one prompt is no measurement", ["", "A", "B"]);
  const figures = element("div", { hidden: true, class: "scroll" }, sum);
  const form = element("form", { class: "ask" }, element("div", { class: "pair" }, labelled("compare", how), labelled("copies at once", copies)), agree, prompt,
    element("div", { class: "buttons" }, go, said));
  const root = element("div", { class: "compare", hidden: true }, element("div", { class: "both" }, element("div", { class: "sides" }, ...sides.map((side) => side.root)), figures), form);
  let ran = null, models = [], busy = false; // ran: the policies to put back while others run, and where

  const say = (text, bad = false) => {
    said.textContent = text;
    said.className = bad ? "bad" : "quiet";
  };
  const reload = (path, plugins) => ask("POST", path, { set: { plugins } });

  function draw() {
    const byPolicies = how.value === "policies";
    agree.hidden = !byPolicies;
    go.disabled = busy || (byPolicies && !consent.checked);
    copies.max = MOST[how.value];
    if (Number(copies.value) > MOST[how.value]) copies.value = MOST[how.value];
    for (const side of sides) side.by(how.value);
  }

  // Asks what there is to choose from; an admin's key is needed for policies.
  async function shown() {
    if (busy) return; // the policies that run now are those of a side
    how.options[1].disabled = models.length < 2;
    sides.forEach((side, i) => side.fill(side.model, models, models[Math.min(i, models.length - 1)]));
    if (models.length >= 2) how.value = "models";
    draw();
    try {
      const known = await ask("GET", "admin/policies");
      if (busy) return;
      for (const side of sides) for (const kind of KINDS) side.fill(side.kinds[kind], [...new Set([known[kind].name, ...known[kind].found])], known[kind].name);
      sides[1].kinds.scheduler.value = known.scheduler.found.findLast((name) => name !== known.scheduler.name && PLAIN.includes(name)) ?? known.scheduler.name;
      say(models.length < 2 ? "This server has one model: its policies are compared. What if compares them on the traffic it had." : "");
    } catch (error) {
      say(`The policies are not known: ${error.message}`, true);
    }
  }

  // What is asked of each side, as the controls are now: they may change while one answers.
  function jobsOf(text, byModels) {
    const n = Math.min(MOST[how.value], Math.max(1, Number(copies.value) || 1));
    return sides.map((side) => {
      const body = bodyOf(settings, [{ role: "user", content: text }]);
      const model = byModels ? side.model.value : watchedModel();
      if (model !== "") body.model = model;
      body.seed ??= 1; // both sides draw alike,
      body.cache_salt = crypto.getRandomValues(new Uint32Array(2)).join(); // and neither finds the other's prompt in the cache
      return { side, n, body, policies: side.policies() };
    });
  }

  // All copies of a side at once. The first is shown.
  async function runSide({ side, n, body }) {
    const answers = Array.from({ length: n }, () => answer(side.root.ariaLabel));
    side.body.replaceChildren(answers[0].root);
    const done = await Promise.allSettled(answers.map((one) => receive(body, one.take)));
    answers[0].end();
    const failed = done.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return figuresOf(answers);
  }

  async function putBack() {
    const { path, plugins } = ran;
    try {
      await reload(path, plugins);
    } catch (error) {
      throw new Error(`${Object.values(plugins).join("+")}, which ran before, could not be put back (see Policies): ${error.message}`);
    } finally {
      ran = null;
    }
  }

  async function onePolicyAfterTheOther(jobs) {
    const path = placeOf("admin/reload"); // of this model, also if another one is picked meanwhile
    const known = await ask("GET", "admin/policies");
    const found = [];
    ran = { path, plugins: Object.fromEntries(KINDS.map((kind) => [kind, known[kind].name])) };
    try {
      for (const job of jobs) {
        say(`${Object.values(job.policies).join("+")} answers`);
        await reload(path, job.policies);
        found.push(await runSide(job));
      }
    } finally {
      await putBack();
    }
    return found;
  }

  const tell = ([a, b]) => {
    figures.hidden = false;
    const row = (name, of, text) => [name, shownOr(a[of], text), shownOr(b[of], text)];
    sum.fill([row("mean time to first token", "first", duration), row("longest time to first token", "worst", duration),
      row("tokens/s, all copies", "rate", short), row("mean gap", "gap", duration), row("longest gap", "longest", duration)]);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = prompt.value.trim(), byModels = how.value === "models";
    if (busy || text === "" || !(byModels || consent.checked)) return;
    busy = true;
    figures.hidden = true;
    draw();
    try {
      const jobs = jobsOf(text, byModels);
      tell(byModels ? await Promise.all(jobs.map(runSide)) : await onePolicyAfterTheOther(jobs));
      say(byModels ? "both have answered" : "both have answered; the policies from before run again");
    } catch (error) {
      say(`failed: ${error.message}`, true);
    }
    busy = false;
    draw();
  });
  // A page that is closed in the middle puts back what ran.
  window.addEventListener("pagehide", () => {
    if (ran === null) return;
    const headers = { "content-type": "application/json", ...(key.get() !== "" ? { authorization: `Bearer ${key.get()}` } : {}) };
    fetch(ran.path, { method: "POST", keepalive: true, headers, body: JSON.stringify({ set: { plugins: ran.plugins } }) });
  });
  how.addEventListener("change", draw);
  consent.addEventListener("change", draw);
  return { root, shown, models: (names) => (models = names) };
}
