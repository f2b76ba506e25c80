// SPDX-License-Identifier: Apache-2.0
// Series over the last minutes, stacked or as lines, on a canvas.
import { colour, picture } from "./elements.js";
import { duration } from "./format.js";

// history: [{time, values: {name: number}}, ...]; series: [[name, colour], ...]
export function chart(height, series, options) {
  const canvas = picture(height);
  canvas.draw = (history, name) => {
    const context = canvas.begin(name);
    const width = canvas.clientWidth;
    if (history.length < 2 || width === 0) return;
    const total = (sample) => series.reduce((sum, [of]) => (options.stacked ? sum + sample.values[of] : Math.max(sum, sample.values[of])), 0);
    // One value in twenty may exceed the chart: else a single pause would flatten all other values.
    const totals = history.map(total).sort((a, b) => a - b);
    const most = options.most ?? Math.max(1e-9, totals[Math.floor(0.95 * (totals.length - 1))]);
    const end = history[history.length - 1].time;
    const span = Math.min(options.span, Math.max(30000, end - history[0].time));
    const x = (sample) => width * (1 - (end - sample.time) / span);
    const y = (value) => (height - 14) * (1 - Math.min(value / most, 1)) + 12;
    const below = history.map(() => 0);
    for (const [of, mark] of series) {
      context.beginPath();
      const tops = history.map((sample, i) => (options.stacked ? below[i] + sample.values[of] : sample.values[of]));
      history.forEach((sample, i) => context.lineTo(x(sample), y(tops[i])));
      if (options.stacked) {
        for (let i = history.length - 1; i >= 0; i--) context.lineTo(x(history[i]), y(below[i]));
        context.fillStyle = colour(mark);
        context.fill();
        tops.forEach((top, i) => (below[i] = top));
      } else {
        context.strokeStyle = colour(mark);
        context.lineWidth = 2;
        context.stroke();
      }
    }
    context.fillStyle = colour("quiet");
    context.font = "11px system-ui, sans-serif";
    context.fillText(`up to ${options.unit(most)}, the last ${duration(span)}`, 2, 10);
  };
  return canvas;
}
