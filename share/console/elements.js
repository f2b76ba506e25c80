// SPDX-License-Identifier: Apache-2.0
// Elements of the page, made and filled without markup in strings, so that data from outside
// can only become text.

// element("p", {class: "quiet", onclick: f}, "text", other elements)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function panel(title, ...children) {
  return element("div", { class: "panel" }, element("h3", {}, title), ...children);
}

export function legend(marks) {
  return element("ul", { class: "legend" }, ...marks.map(([mark, text]) => element("li", { class: `mark-${mark}` }, text)));
}

// A table with a caption; fill() replaces its rows of cells, heads() the names of its columns.
export function table(caption, heads) {
  const body = element("tbody");
  const row = element("tr");
  const made = element("table", {}, element("caption", {}, caption), element("thead", {}, row), body);
  const cell = (value) => (value instanceof Node ? element("td", {}, value) : element("td", {}, String(value)));
  made.heads = (names) => row.replaceChildren(...names.map((name) => element("th", { scope: "col" }, name)));
  made.heads(heads);
  made.fill = (rows) => body.replaceChildren(...rows.map((cells) => element("tr", {}, ...cells.map(cell))));
  return made;
}

// A list of terms, each with its value; fill() takes [[term, value], ...].
export function tiles() {
  const list = element("dl", { class: "tiles" });
  list.fill = (pairs) =>
    list.replaceChildren(...pairs.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));
  return list;
}

let labels = 0;
// A control under its label.
export function labelled(text, control) {
  if (control.id === "") control.id = `control-${++labels}`;
  return element("div", {}, element("label", { for: control.id }, text), control);
}

export function select(names, chosen) {
  return element("select", {}, ...names.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
}

// A page from another host has no clipboard without TLS; browsers can still copy a selection.
function copySelected(text) {
  const area = element("textarea", { readonly: true, "aria-hidden": true }, text);
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

// A button that copies the text which a function returns.
export function copyButton(name, text) {
  const button = element("button", { type: "button" }, name);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text())) ? "copied" : "not copied: the browser refuses";
    setTimeout(() => (button.textContent = name), 1200);
  });
  return button;
}

// A canvas with its context in CSS pixels; height in CSS pixels too. Its name
// describes the picture for screen readers.
export function picture(height) {
  const canvas = element("canvas", { role: "img", "aria-label": "nothing yet" });
  canvas.style.height = `${height}px`;
  canvas.begin = (name) => {
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
    canvas.height = Math.round(canvas.clientHeight * scale);
    canvas.setAttribute("aria-label", name);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    return context;
  };
  return canvas;
}

// The value of a colour of console.css.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
