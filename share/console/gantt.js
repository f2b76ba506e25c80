// SPDX-License-Identifier: Apache-2.0
// Requests as bars over time: the active ones, and the last few hundred that ended.
// Zoomed by wheel, buttons or + and -, moved by dragging or the arrow keys; 0 follows the
// present again.
import { colour, element, legend, picture } from "./elements.js";
import { duration } from "./format.js";

export const PHASES = ["queued", "prefill", "decode", "paused", "swapped", "moving"];
const NAMES = { paused: "paused (computed again)", swapped: "swapped out", moving: "moving" };
const LEAST_SPAN = 200, MOST_SPAN = 3600000, BAR = 14, LOWEST = 120, HIGHEST = 340;

// A life: {id, label, level, tenant, began, ended (null: alive), life: [phase, ms, ...], text}
function phasesOf(one, now) {
  const list = [];
  for (let i = 0; i < one.life.length; i += 2) {
    const from = one.began + one.life[i + 1];
    const to = i + 3 < one.life.length ? one.began + one.life[i + 3] : one.ended ?? now;
    list.push([PHASES[one.life[i]], from, to]);
  }
  return list;
}

export function gantt() {
  const canvas = picture(LOWEST);
  canvas.tabIndex = 0;
  const text = element("p", { class: "quiet" }, "Point at a bar, or press the arrow keys up and down, to read of a request.");
  let lives = [], span = 60000, end = null, now = 0, placed = [], chosen = null, drag = null;

  const button = (name, title, act) => element("button", { type: "button", "aria-label": title, onclick: act }, name);
  const zoom = (factor, at = 1) => {
    const before = span, right = end ?? now;
    span = Math.min(MOST_SPAN, Math.max(LEAST_SPAN, span * factor));
    if (end !== null || at < 1) end = right - (before - span) * (1 - at);
    draw();
  };
  const move = (share) => {
    end = (end ?? now) + share * span;
    draw();
  };
  const follow = () => {
    end = null;
    draw();
  };
  const buttons = element("div", { class: "buttons" }, button("+", "Zoom in", () => zoom(0.5)), button("\u2212", "Zoom out", () => zoom(2)),
    button("\u2190", "Earlier", () => move(-0.25)), button("\u2192", "Later", () => move(0.25)), button("now", "Follow the present", follow));
  const root = element("div", {}, buttons, canvas, legend(PHASES.map((phase) => [phase, NAMES[phase] ?? phase])), text);

  // Puts each life into the first free lane: [[life, lane], ...]
  function place(from, to) {
    const lanes = [], found = [];
    for (const one of lives) {
      const left = one.began, right = one.ended ?? now;
      if (right < from || left > to) continue;
      let lane = lanes.findIndex((taken) => taken <= left);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = right + span / 400;
      found.push([one, lane]);
    }
    return [found, lanes.length];
  }

  function axis(context, from, width, height) {
    const steps = [10, 50, 100, 500, 1000, 5000, 10000, 60000, 300000, 900000];
    const step = steps.find((ms) => span / ms <= Math.min(8, width / 75)) ?? 900000;
    context.fillStyle = colour("quiet");
    context.strokeStyle = colour("line");
    context.font = "11px system-ui, sans-serif";
    for (let ago = Math.ceil((now - from - span) / step) * step; ago <= now - from; ago += step) {
      const x = ((now - ago - from) / span) * width;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 14);
      context.stroke();
      context.textAlign = x > width - 40 ? "right" : "left";
      context.fillText(ago === 0 ? "now" : `${duration(Math.abs(ago))} ${ago > 0 ? "ago" : "ahead"}`, x + (x > width - 40 ? -2 : 2), height - 3);
    }
  }

  function draw() {
    const to = end ?? now, from = to - span;
    const [found, n] = place(from, to);
    canvas.style.height = `${Math.min(HIGHEST, Math.max(LOWEST, 18 + n * BAR))}px`;
    const context = canvas.begin(`${found.length} requests in ${duration(span)}, as bars of their phases`);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    const bar = Math.max(1, Math.min(BAR, (height - 18) / Math.max(1, n)));
    axis(context, from, width, height);
    placed = found.map(([one, lane]) => ({ one, top: lane * bar, height: bar }));
    for (const { one, top } of placed)
      for (const [phase, left, right] of phasesOf(one, now)) {
        const x = ((left - from) / span) * width;
        context.fillStyle = colour(phase);
        context.fillRect(x, top, Math.max(((right - left) / span) * width, 0.7), Math.max(bar - 1, 0.8));
      }
    for (const { one, top } of placed)
      if (one.id === chosen) {
        context.strokeStyle = colour("text");
        const x = ((one.began - from) / span) * width;
        context.strokeRect(x - 1, top - 1, (((one.ended ?? now) - one.began) / span) * width + 2, bar + 1);
      }
  }

  function tell(one) {
    chosen = one.id;
    const parts = phasesOf(one, now).map(([phase, from, to]) => `${phase} ${duration(to - from)}`);
    text.textContent = `${one.label ?? one.id}: ${one.text}; ${parts.join(", ")}`;
    draw();
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => (drag = event.offsetX));
  canvas.addEventListener("pointerup", () => (drag = null));
  canvas.addEventListener("pointerleave", () => (drag = null));
  canvas.addEventListener("pointermove", (event) => {
    if (drag !== null) {
      move((drag - event.offsetX) / canvas.clientWidth);
      drag = event.offsetX;
      return;
    }
    const at = (end ?? now) - span + (event.offsetX / canvas.clientWidth) * span;
    const hit = placed.find(({ one, top, height }) => event.offsetY >= top && event.offsetY < top + height && at >= one.began && at <= (one.ended ?? now));
    if (hit && hit.one.id !== chosen) tell(hit.one);
  });
  const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.1), ArrowRight: () => move(0.1), 0: follow,
    ArrowDown: () => step(1), ArrowUp: () => step(-1) };
  function step(by) {
    if (placed.length === 0) return;
    const i = placed.findIndex(({ one }) => one.id === chosen);
    tell(placed[(i + by + placed.length) % placed.length].one);
  }
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  root.fill = (list, time) => {
    lives = list;
    now = time;
    draw();
  };
  return root;
}
