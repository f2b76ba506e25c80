// SPDX-License-Identifier: Apache-2.0
// Running and waiting requests, the scheduler's description of its order, and requests over time.
import { ROW } from "./cells.js";
import { colour, element, labelled, panel, picture, select, table } from "./elements.js";
import { duration, whole } from "./format.js";
import { gantt, PHASES } from "./gantt.js";

const LEVELS = ["", "realtime", "best effort"];
const OUTCOMES = ["in time", "first token late", "gap too long", "pace too slow", "end late", "failed"];
const KEPT = 600; // lives that ended

// A bar of the phases of a request so far.
function bar(row) {
  const canvas = picture(12);
  canvas.style.width = "9rem";
  const life = row[ROW.life], age = Math.max(1, row[ROW.age]);
  requestAnimationFrame(() => {
    const parts = [];
    for (let i = 0; i < life.length; i += 2) parts.push([PHASES[life[i]], life[i + 1], life[i + 3] ?? age]);
    const context = canvas.begin(parts.map(([phase, from, to]) => `${phase} ${duration(to - from)}`).join(", "));
    for (const [phase, from, to] of parts) {
      context.fillStyle = colour(phase);
      context.fillRect((from / age) * canvas.clientWidth, 0, Math.max(1, ((to - from) / age) * canvas.clientWidth), 12);
    }
  });
  return canvas;
}

const ended = (life) => ({
  id: life[0], label: life[1], began: life[10] - life[11], ended: life[10], life: life[12],
  text: `${LEVELS[life[2]] || "no class"}${life[3] ? `, tenant ${life[3]}` : ""}, ${life[4]} tokens in, ${life[5]} out, `
    + `${life[7] > 0 ? `preempted ${life[7]} times, ` : ""}${life[9]}${life[8] >= 0 ? `, ${OUTCOMES[life[8]]}` : ""}`,
});

const alive = (row, time) => ({
  id: row[ROW.id], label: row[ROW.label], began: time - row[ROW.age], ended: null, life: row[ROW.life],
  text: `${row[ROW.state]}, ${LEVELS[row[ROW.level]] || "no class"}, ${row[ROW.prompt]} tokens in, ${row[ROW.generated]} out so far`,
});

export function make(section) {
  const instance = select([["0", "0"]], "0");
  const choose = element("div", { hidden: true }, labelled("instance", instance));
  const chart = gantt();
  const rows = table("Requests, in the loop's order", ["request", "state", "class", "tenant", "in", "out", "predicted", "preempted", "age", "life"]);
  const left = element("p", { class: "quiet" });
  const lines = element("pre", { tabindex: 0, "aria-label": "The scheduler's own words" });
  const hold = element("button", { type: "button", "aria-pressed": "false" }, "Hold still");
  section.append(choose, element("div", { class: "panels" },
    Object.assign(panel("The last requests", chart), { className: "panel wide" }),
    Object.assign(panel("Now", element("div", { class: "buttons" }, hold), element("div", { class: "scroll" }, rows), left), { className: "panel wide" }),
    Object.assign(panel("What the scheduler orders them by", lines), { className: "panel wide" })));

  const past = new Map();
  let queues = null, time = 0, held = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.setAttribute("aria-pressed", String(held));
  });
  instance.addEventListener("change", () => draw());

  function draw() {
    if (section.hidden || document.hidden || held || queues === null) return; // frames of a hidden tab would be kept until it is seen
    const of = queues.instances[instance.value];
    const now = queues.instances.flatMap((one) => one.rows.map((row) => alive(row, time)));
    chart.fill([...past.values(), ...now.filter((one) => !past.has(one.id))].sort((a, b) => a.began - b.began), time);
    rows.fill(of.rows.slice(0, 100).map((row) => [row[ROW.label] ?? row[ROW.id], row[ROW.state], LEVELS[row[ROW.level]], row[ROW.tenant],
      whole(row[ROW.prompt]), whole(row[ROW.generated]), row[ROW.predicted] > 0 ? whole(row[ROW.predicted]) : "", row[ROW.preemptions], duration(row[ROW.age]), bar(row)]));
    const more = of.rest.requests + Math.max(0, of.rows.length - 100);
    left.textContent = more > 0 ? `and ${whole(more)} more` : of.rows.length === 0 ? "nobody is there" : "";
    lines.textContent = of.lines.length > 0 ? `${of.scheduler}${of.switched_off ? ", switched off" : ""}\n${of.lines.join("\n")}` : `${of.scheduler} says nothing of it`;
  }

  return {
    shown: draw,
    figures(data) {
      time = data.time;
      if (instance.options.length !== data.instances.length)
        instance.replaceChildren(...data.instances.map((of, i) => element("option", { value: String(i) }, `${i}: ${of.role}`)));
      choose.hidden = data.instances.length < 2;
    },
    lives(data) {
      for (const life of data) past.set(life[0], ended(life));
      for (const id of past.keys()) {
        if (past.size <= KEPT) break;
        past.delete(id);
      }
    },
    queues(data) {
      queues = data;
      draw();
    },
    back: () => past.clear(),
  };
}
