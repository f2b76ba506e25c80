// SPDX-License-Identifier: Apache-2.0
// The cache as a picture: a cell is a group of units, coloured by what they hold. Units of a
// request are drawn next to each other, a shade lighter in every second request, so that the number
// and size of requests can be seen. The position of a cell is not the unit's place in memory.
import { colour, legend, picture, element } from "./elements.js";
import { percent, whole } from "./format.js";

const rows = 12;
const FORM_HIDDEN = 2;
// The columns of a row of the event "queues".
export const ROW = { id: 0, label: 1, state: 2, level: 3, tenant: 4, prompt: 5, generated: 6, cached: 7, preemptions: 8,
  predicted: 9, priority: 10, age: 11, form: 12, owned: 13, shared: 14, host: 15, life: 16 };

const LEVEL_REALTIME = 1;
const LEGENDS = {
  bidirectional: [["kv", "real-time"], ["moving", "best effort"], ["shared", "held by both, or several"], ["kept", "other, kept for later"], ["free", "free"]],
  others: [["kv", "KV"], ["hidden", "hidden form"], ["shared", "held by several"], ["host", "swapped out"], ["kept", "other, kept for later"], ["free", "free"]],
};

// [[mark, units, owner], ...] in the order they are drawn.
function runsOf(queues, tier, used) {
  const runs = [];
  const held = { kv: 0, hidden: 0 };
  let owner = 0, shared = queues.rest.shared;
  for (const row of queues.rows) {
    if (tier === "host" ? row[ROW.host] === 0 : row[ROW.owned] + row[ROW.shared] === 0) continue;
    owner++;
    const mark = tier === "host" ? "host" : row[ROW.form] === FORM_HIDDEN ? "hidden" : "kv";
    runs.push([mark, tier === "host" ? row[ROW.host] : row[ROW.owned], owner]);
    shared += row[ROW.shared];
  }
  held.kv = queues.rest.kv;
  held.hidden = queues.rest.hidden;
  if (tier === "host") runs.push(["host", queues.rest.host, 0]);
  else runs.push(["kv", held.kv, 0], ["hidden", held.hidden, 0]);
  const own = runs.reduce((sum, [, units]) => sum + units, 0);
  // A unit shared by several requests counts once: the used units less those with one owner.
  if (tier === "device") runs.push(["shared", Math.max(0, Math.min(shared, used - own)), 0]);
  return runs.filter(([, units]) => units > 0);
}

// The cache bidirectional fills the memory and each block with real-time requests from one end
// and best-effort requests from the other: they are drawn like this, with the free units between.
function fromBothEnds(runs, queues, free) {
  const levels = new Map(queues.rows.filter((row) => row[ROW.owned] + row[ROW.shared] > 0).map((row, i) => [i + 1, row[ROW.level]]));
  const left = [], right = [], middle = [];
  for (const [mark, units, owner] of runs)
    if (mark === "shared" || mark === "kept") middle.push([mark, units, owner]);
    else if (levels.get(owner) === LEVEL_REALTIME) left.push(["kv", units, owner]);
    else right.push(["moving", units, owner]);
  return [...left, ...middle, ["free", free, 0], ...right];
}

export function cells() {
  const canvas = picture(rows * 11);
  const marks = element("div"), text = element("p", { class: "quiet" });
  const root = element("div", {}, canvas, marks, text);
  let legendOf = null;

  function drawTier(context, runs, units, top, height, width) {
    const columns = Math.floor(width / 11), n = columns * Math.max(1, Math.floor(height / 11));
    let cell = 0, seen = 0;
    for (const [mark, count, owner] of runs) {
      seen += count;
      context.fillStyle = colour(mark);
      context.globalAlpha = owner % 2 === 1 ? 0.72 : 1;
      for (; cell < Math.round((n * seen) / units) && cell < n; cell++)
        context.fillRect((cell % columns) * 11, top + Math.floor(cell / columns) * 11, 10, 10);
    }
    context.globalAlpha = 1;
  }

  // Draws one instance, from its figures, its queues and the name of its cache manager.
  root.draw = (figures, queues, manager) => {
    const kind = manager in LEGENDS ? manager : "others";
    if (legendOf !== kind) marks.replaceChildren(legend(LEGENDS[kind]));
    legendOf = kind;
    const m = figures.memory, used = m.device_units - m.device_units_free;
    const onHost = m.host_units > 0;
    const name = `cache: ${percent(used / Math.max(1, m.device_units))} of ${whole(m.device_units)} units on the device in use`
      + (onHost ? `, ${percent(1 - m.host_units_free / m.host_units)} of ${whole(m.host_units)} on the host` : "");
    const context = canvas.begin(name);
    const width = canvas.clientWidth, height = rows * 11, device = onHost ? 8 * 11 : height;
    const runs = runsOf(queues, "device", used);
    const known = runs.reduce((sum, [, units]) => sum + units, 0);
    runs.push(["kept", Math.max(0, used - known), 0]);
    const laid = kind === "bidirectional" ? fromBothEnds(runs, queues, m.device_units_free) : [...runs, ["free", m.device_units_free, 0]];
    drawTier(context, laid, Math.max(1, m.device_units), 0, device, width);
    if (onHost) {
      const below = runsOf(queues, "host", 0);
      const there = below.reduce((sum, [, units]) => sum + units, 0);
      below.push(["kept", Math.max(0, m.host_units - m.host_units_free - there), 0], ["free", m.host_units_free, 0]);
      drawTier(context, below, m.host_units, device + 11, height - device - 11, width);
    }
    text.textContent = `${name}. Tokens on the device: ${whole(m.device_tokens.kv)} as KV, ${whole(m.device_tokens.hidden)} hidden`
      + (onHost ? `; on the host: ${whole(m.host_tokens.kv)} and ${whole(m.host_tokens.hidden)}. Below, the host.` : ".");
  };
  return root;
}
