// SPDX-License-Identifier: Apache-2.0
// A block of code with its language, a button that copies it, and coloured words. The colours
// are guessed by families of languages: comments, strings, numbers and the commonest keywords.
import { copyButton, element } from "./elements.js";

const MOST = 50000; // characters; a longer text stays plain
const HASH = new Set(["python", "py", "sh", "bash", "shell", "zsh", "ruby", "rb", "yaml", "yml", "toml", "ini", "perl", "make", "makefile", "r", "dockerfile"]);
const DASHES = new Set(["sql", "lua", "haskell", "hs"]);
const PLAIN = new Set(["", "text", "txt", "plain", "console", "output", "markdown", "md"]);
const WORDS = new Set(("abstract and as assert async auto await begin bool boolean break case catch char class const continue def default defer "
  + "del do double elif else end enum except export extends extern False false final finally float fn for foreach from func function global go "
  + "goto if impl implements import in include int interface is lambda let local long loop match mod module mut my namespace new nil None not "
  + "null nullptr or pass private protected pub public raise register return self short signed sizeof static struct sub super switch template "
  + "then this throw trait True true try type typedef typeof union unless unsigned until use using var virtual void volatile where while with "
  + "yield SELECT FROM WHERE AND OR NOT INSERT INTO UPDATE DELETE CREATE TABLE JOIN ON GROUP BY ORDER LIMIT VALUES SET NULL").split(" "));

const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|` + "`(?:\\\\.|[^`\\\\])*`?";
const REST = `(${STRINGS})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`;
const COMMENTS = { hash: "#[^\\n]*", dashes: "--[^\\n]*", slashes: "//[^\\n]*|/\\*[^]*?(?:\\*/|$)" };

function coloured(text, language) {
  const family = HASH.has(language) ? "hash" : DASHES.has(language) ? "dashes" : "slashes";
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(new RegExp(`(${COMMENTS[family]})|${REST}`, "g"))) {
    const [whole, comment, string, number, word] = found;
    const kind = comment !== undefined ? "comment" : string !== undefined ? "string" : number !== undefined ? "number" : WORDS.has(word) ? "word" : null;
    if (kind === null) continue;
    nodes.push(text.slice(at, found.index), element("span", { class: `code-${kind}` }, whole));
    at = found.index + whole.length;
  }
  nodes.push(text.slice(at));
  return nodes;
}

export function codeBlock(text, language) {
  const name = language.toLowerCase();
  const plain = PLAIN.has(name) || text.length > MOST;
  return element("figure", { class: "code" },
    element("figcaption", {}, element("span", {}, name || "text"), copyButton("Copy", () => text)),
    element("pre", { tabindex: 0, "aria-label": `code, ${name || "text"}` }, element("code", {}, ...(plain ? [text] : coloured(text, name)))));
}
