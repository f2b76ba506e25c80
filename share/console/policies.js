// SPDX-License-Identifier: Apache-2.0
// The loaded policies: each parameter with its meaning and a control to change it, and controls to
// choose other policies. Changes go through the server's reload, which applies all or none.
import { ask } from "./connection.js";
import { copyButton, element, select } from "./elements.js";

const KINDS = ["scheduler", "cache", "predictor", "drafter"];
const NAMED = new Set(KINDS); // keys of [plugins] that have a control of their own

// The control for a parameter, with its value as text.
function controlOf(param) {
  if (param.type === "choice") return select((param.auto ? [["auto", "auto"]] : []).concat(param.choices.split("|").map((name) => [name, name])), param.value);
  if (param.type === "bool") return select(["true", "false"].map((name) => [name, name]), /^(true|on|yes|1)$/.test(param.value) ? "true" : "false");
  return element("input", { value: param.value, spellcheck: "false", autocomplete: "off", disabled: param.type === "path" });
}

export function make(section) {
  const answer = element("p", { role: "status" });
  const ini = element("pre", { "aria-label": "The settings as an INI" });
  const apply = element("button", { type: "button", class: "main", disabled: true }, "Apply");
  const undo = element("button", { type: "button", disabled: true }, "Undo");
  const back = element("button", { type: "button" }, "Back to the file");
  const lists = element("div");
  const experimental = element("input", { type: "checkbox", id: "experimental" });
  const controls = []; // {section, name, control, was, param, row}
  let known = null, names = () => {}, tellKnown = () => {};

  section.append(
    element("p", { class: "quiet" }, "What is applied here runs until the next reload without it: the file stays as it is. ",
      "A value marked ", element("span", { class: "tag" }, "live"), " changes under its policy; another makes the policy anew, under the requests that run."),
    element("div", { class: "buttons" }, apply, undo, back, element("span", {}, experimental, element("label", { for: "experimental" }, " show experimental ones"))),
    answer, lists, element("h3", {}, "As an INI"), element("div", { class: "buttons" }, copyButton("Copy", () => ini.textContent)), ini);

  const changed = () => controls.filter(({ control, was }) => control.value !== was);

  // The configuration of these controls, as lines of llmserve.ini.
  function writeIni() {
    const sections = new Map([["plugins", []]]);
    for (const { section: of, name, control, param } of controls) {
      const kind = of === "plugins" && NAMED.has(name);
      if (!kind && control.value === (param.default ?? "")) continue;
      if (!sections.has(of)) sections.set(of, []);
      sections.get(of).push(`${name} = ${control.value}`);
    }
    ini.textContent = [...sections].map(([of, lines]) => [`[${of}]`, ...lines].join("\n")).join("\n\n");
  }

  function look() {
    const n = changed().length;
    for (const { control, was, row } of controls) row.classList.toggle("changed", control.value !== was);
    apply.disabled = undo.disabled = n === 0;
    apply.textContent = n > 1 ? `Apply ${n} changes` : "Apply";
    writeIni();
  }

  function addParam(of, param, into) {
    const control = controlOf(param);
    const id = `${of}.${param.name}`;
    control.id = id;
    const words = [element("p", {}, `${param.sentence}. `, element("span", { class: "quiet" }, `${param.expected}; default ${param.default ?? "none"}; from the ${param.set_by} `),
      ...(param.live ? [element("span", { class: "tag" }, "live")] : []))];
    const row = element("div", { class: "param", "data-experimental": String(param.experimental), hidden: param.experimental && !experimental.checked },
      element("label", { for: id }, param.name), control, ...words);
    control.addEventListener("input", look);
    controls.push({ section: of, name: param.name, control, was: control.value, param, row });
    into.append(row);
  }

  function addKind(kind) {
    const policy = known[kind];
    const chosen = known.plugins.find((param) => param.name === kind);
    const control = select([...new Set([chosen.value, ...policy.found])].map((name) => [name, name]), chosen.value);
    control.id = `plugins.${kind}`;
    const row = element("div", { class: "param" }, element("label", { for: control.id }, kind), control,
      element("p", {}, `${policy.description} `, element("span", { class: "quiet" }, `(${policy.name} ${policy.version}, ${policy.licence})`)));
    const group = element("div", { class: "panel" }, element("h3", {}, `${kind} ${policy.name}`), row);
    control.addEventListener("input", look);
    controls.push({ section: "plugins", name: kind, control, was: control.value, param: chosen, row });
    for (const param of policy.parameters) addParam(policy.section, param, group);
    lists.append(group);
  }

  function draw() {
    controls.length = 0;
    lists.replaceChildren();
    for (const kind of KINDS) addKind(kind);
    const others = element("div", { class: "panel" }, element("h3", {}, "For any of them"));
    for (const param of known.plugins.filter(({ name }) => !NAMED.has(name))) addParam("plugins", param, others);
    lists.append(others);
    back.disabled = known.changes.length === 0;
    look();
  }

  async function read() {
    try {
      known = await ask("GET", "admin/policies");
    } catch (error) {
      say(error.message, false);
      return;
    }
    names(Object.fromEntries(KINDS.map((kind) => [kind, known[kind].name])));
    tellKnown(known);
    draw();
  }

  function say(text, good) {
    answer.className = good ? "good" : "bad";
    answer.textContent = text;
  }

  // Reloads, with these settings or from the file alone.
  async function reload(set) {
    apply.disabled = back.disabled = true;
    try {
      const { generation, message } = await ask("POST", "admin/reload", set === null ? undefined : { set });
      say(`Generation ${generation}: ${message}.`, true);
      await read();
    } catch (error) {
      say(`Refused, nothing has changed: ${error.message}`, false);
      back.disabled = known.changes.length === 0;
      look();
    }
  }

  apply.addEventListener("click", () => {
    const set = {};
    for (const { section: of, name, control } of changed()) set[of] = { ...set[of], [name]: control.value };
    reload(set);
  });
  undo.addEventListener("click", () => {
    for (const one of changed()) one.control.value = one.was;
    answer.textContent = "";
    look();
  });
  back.addEventListener("click", () => reload(null));
  experimental.addEventListener("change", () => {
    for (const { row } of controls) if (row.dataset.experimental === "true") row.hidden = !experimental.checked;
  });

  return {
    back: () => read(),
    onNames: (told) => (names = told),
    onKnown: (told) => (tellKnown = told),
    // Another client has reloaded, and no change is pending in this page.
    figures(data) {
      if (known !== null && data.generation !== known.generation && changed().length === 0) {
        known.generation = data.generation;
        read();
      }
    },
  };
}
