// SPDX-License-Identifier: Apache-2.0
// The Markdown within a line: code, emphasis, links. A text from a model can only become the
// elements named here: nodes are made one by one, and HTML in it stays text. A link leads to
// http, https or mail; a picture becomes a link, since the page loads nothing from elsewhere.
// The time is linear in the text: each kind of mark is looked for in vain only once.
import { element } from "./elements.js";

const DEPTH = 6;       // of emphasis within emphasis
const LINK_MOST = 500; // characters of a link's text, and 2,000 of its address
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

// The address if a click may lead there; else null.
export function safeAddress(text) {
  try {
    const url = new URL(text.trim());
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, ...children) {
  const href = safeAddress(address);
  if (href === null) return element("span", { class: "no-link", title: "The address is no web page." }, ...children);
  return element("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

function code(text, at, close) {
  let n = 1;
  while (text[at + n] === "`") n++;
  const end = close("`".repeat(n), at + n);
  if (end < 0) return null;
  return [element("code", {}, text.slice(at + n, end).trim() || " "), end + n];
}

const wordBefore = (text, at) => at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1]);
const wordAfter = (text, at) => at < text.length && /[\p{L}\p{N}]/u.test(text[at]);

// Emphasis by the mark, which is doubled for strong.
function emphasis(text, at, close, depth) {
  const mark = text[at];
  const n = text[at + 1] === mark ? 2 : 1;
  const from = at + n;
  if (/\s/.test(text[from] ?? " ") || (mark === "_" && wordBefore(text, at)) || (mark === "~" && n === 1)) return null;
  let end = close(mark.repeat(n), from);
  while (n === 2 && end >= 0 && text[end + 2] === mark) end++;
  if (n === 1 && end >= 0 && text[end + 1] === mark) { // strong within emphasis
    const pair = close(mark.repeat(2), end + 2);
    end = pair < 0 ? -1 : close(mark, pair + 2);
  }
  if (end <= from || /\s/.test(text[end - 1]) || (mark === "_" && wordAfter(text, end + n))) return null;
  const tag = mark === "~" ? "del" : n === 2 ? "strong" : "em";
  return [element(tag, {}, ...inline(text.slice(from, end), depth + 1)), end + n];
}

// [text](address "title"), and the same after an exclamation mark.
function reference(text, at, depth) {
  const picture = text[at] === "!";
  const from = at + (picture ? 2 : 1);
  const near = text.slice(from, from + LINK_MOST + 2000);
  const middle = near.indexOf("](");
  if (middle < 0 || middle > LINK_MOST || (picture && text[at + 1] !== "[")) return null;
  const end = near.indexOf(")", middle);
  if (end < 0) return null;
  const address = near.slice(middle + 2, end).trim().split(/\s/, 1)[0].replace(/^<|>$/g, "");
  const words = near.slice(0, middle);
  const children = picture ? [`picture: ${words || address}`] : inline(words, depth + 1);
  return [link(address, ...children), from + end + 1];
}

function angled(text, at) {
  const found = /^<(?:br ?\/?|((?:https?:\/\/|mailto:)[^\s<>]{1,2000}))>/i.exec(text.slice(at, at + 2100));
  if (found === null) return null;
  return [found[1] === undefined ? element("br") : link(found[1], found[1]), at + found[0].length];
}

function bare(text, at) {
  if (wordBefore(text, at)) return null;
  const found = /^https?:\/\/[^\s<>"'`*()[\]]{1,2000}/.exec(text.slice(at, at + 2010));
  if (found === null) return null;
  const address = found[0].replace(/[.,;:!?]$/, "");
  return [link(address, address), at + address.length];
}

// What may begin at a character: [node, position after it], or null.
function begin(text, at, close, depth) {
  switch (text[at]) {
    case "`": return code(text, at, close);
    case "*": case "_": case "~": return emphasis(text, at, close, depth);
    case "[": case "!": return reference(text, at, depth);
    case "<": return angled(text, at);
    case "h": return bare(text, at);
    case "\\": return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? [text[at + 1], at + 2] : null;
    default: return null;
  }
}

// The nodes of a text.
export function inline(text, depth = 0) {
  const nodes = [], absent = new Set();
  const close = (mark, from) => {
    const found = absent.has(mark) ? -1 : text.indexOf(mark, from);
    if (found < 0) absent.add(mark);
    return found;
  };
  let plain = 0;
  for (let at = 0; at < text.length;) {
    const made = depth < DEPTH ? begin(text, at, close, depth) : null;
    if (made === null) {
      const run = text[at]; // marks that began nothing are one piece
      do at++; while (run === text[at] && (run === "`" || run === "*"));
      continue;
    }
    if (plain < at) nodes.push(text.slice(plain, at));
    nodes.push(made[0]);
    plain = at = made[1];
  }
  if (plain < text.length) nodes.push(text.slice(plain));
  return nodes;
}
