// SPDX-License-Identifier: Apache-2.0
// The axes of a chart on a canvas: marks with units on the left, and what is below.
import { colour } from "./elements.js";

const FONT = "11px system-ui, sans-serif";
const BELOW = 18, ABOVE = 16;

// The step between marks, 1, 2 or 5 times a power of ten, of which about `n` reach `most`.
export function stepOf(most, n = 3) {
  const rough = most / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
}

// Draws the axes of a chart from 0 to `most`; {left, width, y(value)} of the room within them.
// options: most, unit(value) for the marks, title (above), from and to (the ends below), below.
export function axes(context, canvas, options) {
  const { most, unit } = options;
  const step = stepOf(most, options.marks ?? 3);
  const marks = [];
  for (let i = 0; i * step <= most * 1.0001; i++) marks.push(i * step);
  context.font = FONT;
  const textOf = (mark) => (mark === 0 ? "0" : unit(mark));
  const left = 6 + Math.max(...marks.map((mark) => context.measureText(textOf(mark)).width));
  const right = canvas.clientWidth - 4, bottom = canvas.clientHeight - BELOW;
  const y = (value) => bottom - ((bottom - ABOVE) * Math.min(value, most)) / most;
  context.strokeStyle = colour("line");
  context.fillStyle = colour("quiet");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const mark of marks) {
    const at = Math.round(y(mark)) + 0.5;
    context.beginPath();
    context.moveTo(left, at);
    context.lineTo(right, at);
    context.stroke();
    context.fillText(textOf(mark), left - 4, at);
  }
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(options.title ?? "", 0, 9);
  context.fillText(options.from ?? "", left, bottom + 14);
  context.textAlign = "center";
  context.fillText(options.below ?? "", (left + right) / 2, bottom + 14);
  context.textAlign = "right";
  context.fillText(options.to ?? "", right, bottom + 14);
  context.textAlign = "left";
  return { left, width: right - left, y };
}
