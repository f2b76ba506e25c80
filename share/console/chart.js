// SPDX-License-Identifier: Apache-2.0
// Series over the last minutes, stacked or as lines, on a canvas with axes.
import { axes } from "./axes.js";
import { colour, picture } from "./elements.js";
import { duration } from "./format.js";

// One value in twenty may exceed the chart: else a single pause would flatten all other values.
function mostOf(totals) {
  const sorted = totals.filter((total) => !Number.isNaN(total)).sort((a, b) => a - b);
  return Math.max(1e-9, 1.1 * (sorted[Math.floor(0.95 * (sorted.length - 1))] ?? 0));
}

// history: [{time, values: {name: number}}, ...]; series: [[name, colour], ...]; options: span
// in ms, unit(value) for the marks, title, stacked, most.
export function chart(height, series, options) {
  const canvas = picture(height);
  canvas.draw = (history, name) => {
    const context = canvas.begin(name);
    if (history.length < 2 || canvas.clientWidth === 0) return;
    const of = (sample) => series.map(([key]) => sample.values[key]);
    const totals = history.map((sample) => (options.stacked ? of(sample).reduce((a, b) => a + b, 0) : Math.max(...of(sample))));
    const most = options.most ?? mostOf(totals);
    const end = history[history.length - 1].time;
    const span = Math.min(options.span, Math.max(30000, end - history[0].time));
    const room = axes(context, canvas, { most, unit: options.unit, title: options.title, from: `${duration(span)} ago`, to: "now" });
    const x = (sample) => room.left + room.width * (1 - (end - sample.time) / span);
    const below = history.map(() => 0);
    for (const [key, mark] of series) {
      const tops = history.map((sample, i) => (options.stacked ? below[i] + sample.values[key] : sample.values[key]));
      context.beginPath();
      history.forEach((sample, i) => Number.isNaN(tops[i]) || context.lineTo(x(sample), room.y(tops[i])));
      if (options.stacked) {
        for (let i = history.length - 1; i >= 0; i--) context.lineTo(x(history[i]), room.y(below[i]));
        context.fillStyle = colour(mark);
        context.fill();
        tops.forEach((top, i) => (below[i] = top));
      } else {
        context.strokeStyle = colour(mark);
        context.lineWidth = 2;
        context.stroke();
      }
    }
  };
  return canvas;
}
