// SPDX-License-Identifier: Apache-2.0
// By how much each candidate would be better, as bars on an axis of percent. Within the margin,
// which is shaded, a difference can't be told.
import { stepOf } from "./axes.js";
import { colour, picture } from "./elements.js";

const ROW = 24, BELOW = 20;
const signed = (share) => `${share > 0 ? "+" : share < 0 ? "\u2212" : ""}${Math.abs(100 * share).toFixed(Math.abs(share) < 0.1 && share !== 0 ? 1 : 0)} %`;

// results: [{name, gain, told}, ...]
export function gains(results, margin) {
  const known = results.filter((one) => typeof one.gain === "number");
  const canvas = picture(known.length * ROW + BELOW);
  canvas.draw = () => {
    const context = canvas.begin(known.map((one) => `${one.name} ${signed(one.gain)}`).join(", ") || "no candidate");
    const width = canvas.clientWidth, bottom = known.length * ROW;
    const least = Math.min(-margin * 1.2, ...known.map((one) => one.gain)), most = Math.max(margin * 1.2, 0.01, ...known.map((one) => one.gain));
    const left = Math.min(0.4 * width, 200), right = width - 48; // room for the last figure
    const x = (gain) => left + ((right - left) * (gain - least)) / (most - least);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colour("free");
    context.fillRect(x(-margin), 0, x(margin) - x(-margin), bottom);
    const step = stepOf(most - least, width < 500 ? 3 : 6);
    context.textAlign = "center";
    for (let mark = Math.ceil(least / step) * step; mark <= most; mark += step) {
      context.fillStyle = colour(Math.abs(mark) < step / 2 ? "quiet" : "line");
      context.fillRect(Math.round(x(mark)), 0, 1, bottom + 4);
      context.fillStyle = colour("quiet");
      context.fillText(signed(Math.abs(mark) < step / 2 ? 0 : mark), x(mark), bottom + 16);
    }
    context.textBaseline = "middle";
    known.forEach((one, i) => {
      const at = i * ROW + ROW / 2;
      const from = Math.min(x(0), x(one.gain)), to = Math.max(x(0), x(one.gain));
      context.fillStyle = colour(one.told ? (one.gain > 0 ? "decode" : "paused") : "kept");
      context.fillRect(from, at - 7, Math.max(1, to - from), 14);
      context.fillStyle = colour("text");
      context.textAlign = "left";
      context.fillText(one.name, 0, at, left - 8);
      context.fillText(signed(one.gain), to + 5, at);
    });
  };
  return canvas;
}
