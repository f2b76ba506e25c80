// SPDX-License-Identifier: Apache-2.0
// The sessions of agents and chats, and in which tier what they said is kept: of each the tokens
// on the device, on the host, on the disk, and those that would be computed again.
import { ask } from "./connection.js";
import { element, legend, panel, table, tiles } from "./elements.js";
import { duration, percent, whole } from "./format.js";

const PERIOD = 2000; // ms between two looks
const SHOWN = 50;
const TIERS = [["device", "kv"], ["host", "host"], ["disk", "disk"], ["gone", "free"]];
const NAMES = { device: "on the device", host: "on the host", disk: "on the disk", gone: "nowhere: computed again" };
const ENDS = { stopped: "ended its answer", length: "reached max_tokens", tool_call: "called a tool", cancelled: "was cancelled" };

// The tokens of a session by tier: those in two tiers count in the faster one.
function tokensOf(session) {
  let left = session.tokens;
  const of = {};
  for (const tier of ["device", "host", "disk"]) {
    of[tier] = Math.min(left, session.there[tier]);
    left -= of[tier];
  }
  return { ...of, gone: left };
}

// A bar of parts, [[mark, size], ...], as wide as `most`.
function bar(parts, most, name) {
  const pieces = parts.filter(([, size]) => size > 0).map(([mark, size]) => {
    const piece = element("span", { class: `mark-${mark}` });
    piece.style.width = `${(100 * size) / Math.max(1, most)}%`;
    return piece;
  });
  return element("div", { class: "bar-of", role: "img", "aria-label": name }, ...pieces);
}

const wordsOf = (of) => TIERS.map(([tier]) => [tier, of[tier]]).filter(([, n]) => n > 0).map(([tier, n]) => `${whole(n)} ${NAMES[tier]}`).join(", ") || "no token";

function stateOf(session) {
  if (session.requests > 0) return `answering ${session.requests > 1 ? `${session.requests} requests` : ""}`;
  const idle = session.idle_seconds === null ? "" : `, ${duration(1000 * session.idle_seconds)} ago`;
  const back = session.returns_in_seconds;
  const returns = back === null ? "" : back >= 0 ? `; expected in ${duration(1000 * back)}` : `; expected ${duration(-1000 * back)} ago`;
  return `${ENDS[session.ended_by] ?? "new"}${idle}${returns}`;
}

// The memory of a tier as a bar of 100 %, over all instances.
function memoryBar(name, total, free, mark) {
  const used = total - free;
  return element("div", { class: "tier" }, element("span", {}, name), bar([[mark, used], ["free", free]], total, `${name}: ${percent(used / total)} in use`),
    element("span", { class: "quiet" }, `${percent(used / total)} of ${whole(total)} units`));
}

export function make(section) {
  const top = tiles();
  const memory = element("div", { class: "tiers" });
  const all = element("div");
  const rows = table("Sessions: those with a request first, then those that answered last", ["session", "tokens", "", "state", "tenant"]);
  rows.classList.add("sessions");
  const said = element("p", { class: "quiet", role: "status" });
  const list = panel("Sessions", element("div", { class: "scroll" }, rows), legend(TIERS.map(([tier, mark]) => [mark, NAMES[tier]])));
  const tiers = panel("Tiers", memory, all);
  section.append(element("p", { class: "quiet" }, "A session is the requests of an agent or a chat: each begins with what was said before, which costs nothing where it is still kept. ",
    "A request names its session by the header x-session-id (doc/serving.md)."), said, top, element("div", { class: "panels" }, wide(tiers), wide(list)));
  let timer = 0, figures = null;

  function drawMemory() {
    if (figures === null) return;
    const sum = (name) => figures.instances.reduce((n, of) => n + of.memory[name], 0);
    memory.replaceChildren(memoryBar("device", sum("device_units"), sum("device_units_free"), "kv"),
      ...(sum("host_units") > 0 ? [memoryBar("host", sum("host_units"), sum("host_units_free"), "host")] : []));
  }

  function draw({ sessions, left_out: leftOut }) {
    const of = sessions.map(tokensOf);
    const total = Object.fromEntries(TIERS.map(([tier]) => [tier, of.reduce((n, one) => n + one[tier], 0)]));
    const tokens = Object.values(total).reduce((a, b) => a + b, 0);
    const most = Math.max(1, ...sessions.map((session) => session.tokens));
    top.hidden = tiers.hidden = list.hidden = sessions.length === 0;
    said.textContent = sessions.length === 0 ? "No session yet: a chat of this console makes one."
      : leftOut > 0 || sessions.length > SHOWN ? `${whole(Math.max(0, sessions.length - SHOWN) + leftOut)} more are not shown` : "";
    top.fill([["sessions", whole(sessions.length + leftOut)], ["answering", whole(sessions.filter((one) => one.requests > 0).length)], ["tokens", whole(tokens)],
      ["kept", percent(1 - total.gone / Math.max(1, tokens))]]);
    all.replaceChildren(element("div", { class: "tier" }, element("span", {}, "sessions"), bar(TIERS.map(([tier, mark]) => [mark, total[tier]]), tokens, `all sessions: ${wordsOf(total)}`),
      element("span", { class: "quiet" }, `${whole(tokens)} tokens`)));
    rows.heads(["session", `tokens, 0 to ${whole(most)}`, "", "state", "tenant"]);
    rows.fill(sessions.slice(0, SHOWN).map((session, i) => [session.name, bar(TIERS.map(([tier, mark]) => [mark, of[i][tier]]), most, wordsOf(of[i])),
      whole(session.tokens), stateOf(session), session.tenant]));
    drawMemory();
  }

  async function look() {
    clearTimeout(timer);
    if (section.hidden) return;
    try {
      draw(await ask("GET", "admin/sessions"));
    } catch (error) {
      said.textContent = `The sessions are not known: ${error.message}`;
    }
    timer = setTimeout(look, PERIOD);
  }

  return {
    shown: look,
    back: look,
    figures(data) {
      figures = data;
      if (!section.hidden) drawMemory();
    },
  };
}

function wide(made) {
  made.classList.add("wide");
  return made;
}
