// SPDX-License-Identifier: Apache-2.0
// Markdown as elements: the blocks of it that models write. No part of the text is ever read
// as HTML (inline.js), and an unfinished text, of which more will come, is drawn as far as it goes.
import { codeBlock } from "./code.js";
import { element } from "./elements.js";
import { inline } from "./inline.js";

const DEPTH = 8; // of lists and quotations within each other
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +(?=\S)/;
const DIVIDER = /^[ |:-]+$/; // with a dash

const blank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

// Each takes the lines and the first line's number: [element, number of the line after it].

function fence(lines, at) {
  const [, mark, language] = FENCE.exec(lines[at]);
  const shift = indentOf(lines[at]);
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && lines[end].trim() === mark[0].repeat(lines[end].trim().length))) end++;
  const inside = lines.slice(at + 1, end).map((line) => line.slice(Math.min(shift, indentOf(line))));
  return [codeBlock(inside.join("\n"), language), end + 1];
}

function heading(lines, at) {
  const [, marks, text] = HEADING.exec(lines[at]);
  const level = Math.min(6, marks.length + 2); // below the page's own
  return [element(`h${level}`, {}, ...inline(text.replace(/ #+ *$/, ""))), at + 1];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return [element("blockquote", {}, ...blocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1)), end];
}

// The lines of the item that begins at a line, without its mark, and the line after it.
function item(lines, at) {
  const [mark] = ITEM.exec(lines[at]);
  const inside = [lines[at].slice(mark.length)];
  let end = at + 1, gap = false;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (blank(line)) gap = true;
    else if (indentOf(line) >= Math.min(mark.length, indentOf(mark) + 2)) gap = false;
    else if (gap || startsBlock(line)) break;
    inside.push(line.slice(Math.min(mark.length, indentOf(line))));
  }
  return [inside, end];
}

function list(lines, at, depth) {
  const [, , first] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first);
  const made = ordered ? element("ol", { start: parseInt(first, 10) }) : element("ul");
  while (at < lines.length && ITEM.test(lines[at]) && /\d/.test(ITEM.exec(lines[at])[2]) === ordered && !RULE.test(lines[at])) {
    const [inside, end] = item(lines, at);
    inside[0] = inside[0].replace(/^\[( |x)\] /i, (_, done) => (done === " " ? "\u2610 " : "\u2611 "));
    const children = blocks(inside, depth + 1);
    // An item of one paragraph is a line.
    if (children[0]?.tagName === "P") children.splice(0, 1, ...children[0].childNodes);
    made.append(element("li", {}, ...children));
    at = end;
  }
  return [made, at];
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function gridOf(lines, at) {
  const heads = cellsOf(lines[at]).slice(0, 30);
  const body = element("tbody");
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end++) {
    const cells = cellsOf(lines[end]);
    body.append(element("tr", {}, ...heads.map((_, i) => element("td", {}, ...inline(cells[i] ?? "")))));
  }
  const head = element("tr", {}, ...heads.map((cell) => element("th", { scope: "col" }, ...inline(cell))));
  const grid = element("table", { "aria-label": `table of ${heads.length} columns` }, element("thead", {}, head), body);
  return [element("div", { class: "scroll" }, grid), end];
}

const isGrid = (lines, at) => lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("|") && lines[at + 1].includes("-") && DIVIDER.test(lines[at + 1]);
const startsBlock = (line) => [FENCE, HEADING, RULE, QUOTE, ITEM].some((start) => start.test(line));

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines[end]) && !isGrid(lines, end)) end++;
  return [element("p", {}, ...inline(lines.slice(at, end).join("\n"))), end];
}

function block(lines, at, depth) {
  if (FENCE.test(lines[at])) return fence(lines, at);
  if (depth >= DEPTH) return paragraph(lines, at);
  if (HEADING.test(lines[at])) return heading(lines, at);
  if (RULE.test(lines[at])) return [element("hr"), at + 1];
  if (QUOTE.test(lines[at])) return quote(lines, at, depth);
  if (ITEM.test(lines[at])) return list(lines, at, depth);
  return isGrid(lines, at) ? gridOf(lines, at) : paragraph(lines, at);
}

function blocks(lines, depth) {
  const made = [];
  for (let at = 0; at < lines.length;) {
    if (blank(lines[at])) {
      at++;
      continue;
    }
    const [one, end] = block(lines, at, depth);
    made.push(one);
    at = end;
  }
  return made;
}

// The elements of a text.
export const markdown = (text) => blocks(text.replace(/\t/g, "    ").split(/\r?\n/), 0);
