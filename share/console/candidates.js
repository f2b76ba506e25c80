// SPDX-License-Identifier: Apache-2.0
// The candidates of a question: pickers for policies and a range of a parameter, the list of
// those chosen, and the same as text, SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]][:PARAMETER=VALUES].
import { element, labelled, select } from "./elements.js";

const KINDS = ["scheduler", "cache", "predictor", "drafter"];
const FIRST = ["worth", "sarathi", "fcfs", "srpt", "apt+hybrid"];

const textOf = (list) => list.join(", ");
const listOf = (text) => text.split(/[,\s]+/).filter((one) => one !== "");

// "a+b" of the policies that are not as they run: a later one needs those before it by name.
function policiesOf(chosen, running) {
  const last = KINDS.findLastIndex((kind, i) => i === 0 || chosen[kind] !== "");
  return KINDS.slice(0, last + 1).map((kind) => chosen[kind] || running[kind]).join("+");
}

export function candidates() {
  const kinds = Object.fromEntries(KINDS.map((kind) => [kind, select([], "")]));
  const names = element("datalist", { id: "whatif-parameters" });
  const input = (attributes) => element("input", { spellcheck: "false", autocomplete: "off", ...attributes });
  const parameter = input({ list: names.id, placeholder: "none", "data-name": "parameter" });
  const [from, to, step] = ["from", "to", "step"].map((name) => input({ "data-name": name, placeholder: name === "from" ? "value" : "" }));
  const add = element("button", { type: "button" }, "Add");
  const chips = element("ul", { class: "chips", "aria-label": "Candidates" });
  const text = input({ value: textOf(FIRST), "data-name": "candidates", "aria-describedby": "whatif-hint" });
  const said = element("p", { class: "bad", role: "status" });
  let running = {}, known = null;

  const root = element("div", {}, chips,
    element("div", { class: "picker" }, ...KINDS.map((kind) => labelled(kind, kinds[kind]))),
    element("div", { class: "picker" }, labelled("parameter of the scheduler", parameter), labelled("from", from), labelled("to", to), labelled("in steps of", step), add), names, said,
    element("details", {}, element("summary", {}, "As text"), labelled("candidates", text),
      element("p", { class: "quiet", id: "whatif-hint" }, "SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]][:PARAMETER=VALUES], with commas between: apt+hybrid:late_share=0..0.02:0.01, sarathi:chunk=128..512:128")));

  function draw() {
    const list = listOf(text.value);
    chips.replaceChildren(...list.map((one, i) => element("li", {}, element("button", { type: "button", "aria-label": `Remove ${one}`, onclick: () => {
      text.value = textOf(list.toSpliced(i, 1));
      draw();
    } }, `${one} \u00d7`))));
  }

  // The parameters of the scheduler that runs; those of others are known by their READMEs only.
  function offer() {
    const own = known !== null && kinds.scheduler.value === running.scheduler ? known.scheduler.parameters : [];
    names.replaceChildren(...own.filter((param) => param.type !== "path").map((param) => element("option", { value: param.name }, param.expected)));
  }

  function range() {
    const name = parameter.value.trim();
    if (name === "") return "";
    const [a, b, c] = [from, to, step].map((one) => one.value.trim());
    if (a === "") throw new Error(`${name}: a value, or a range, is missing`);
    if ((b === "") !== (c === "")) throw new Error(`${name}: a range has an end and a step`);
    return `:${name}=${b === "" ? a : `${a}..${b}:${c}`}`;
  }

  add.addEventListener("click", () => {
    try {
      const one = policiesOf(Object.fromEntries(KINDS.map((kind) => [kind, kinds[kind].value])), running) + range();
      text.value = textOf([...new Set([...listOf(text.value), one])]);
      said.textContent = "";
      draw();
    } catch (error) {
      said.textContent = error.message;
    }
  });
  text.addEventListener("input", draw);
  kinds.scheduler.addEventListener("change", offer);
  draw();

  return {
    root,
    list: () => listOf(text.value),
    // What GET /admin/policies answers.
    known(answer) {
      const before = known;
      known = answer;
      running = Object.fromEntries(KINDS.map((kind) => [kind, known[kind].name]));
      for (const kind of KINDS) {
        const chosen = kinds[kind].value;
        const options = [...(kind === "scheduler" ? [] : [["", `${known[kind].name}, as now`]]), ...known[kind].found.map((name) => [name, name])];
        kinds[kind].replaceChildren(...options.map(([value, name]) => element("option", { value, selected: value === chosen }, name)));
      }
      if (before === null) {
        kinds.scheduler.value = running.scheduler;
        text.value = textOf(listOf(text.value).filter((one) => one.split(/[+:]/, 1).every((name) => known.scheduler.found.includes(name))));
        draw();
      }
      offer();
    },
  };
}
