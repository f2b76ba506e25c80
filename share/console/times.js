// SPDX-License-Identifier: Apache-2.0
// How an answer came: the times of its pieces, in a line and as a chart of the gaps.
import { axes } from "./axes.js";
import { colour, picture } from "./elements.js";
import { duration, short } from "./format.js";

export function makeTimes() {
  const times = { began: performance.now(), at: [], tokens: 0, prompt: 0, cached: 0 };
  times.note = () => times.at.push(performance.now());
  times.usage = (usage) => {
    [times.tokens, times.prompt] = [usage.completion_tokens, usage.prompt_tokens];
    times.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  };
  times.gaps = () => times.at.slice(1).map((at, i) => at - times.at[i]);
  times.first = () => (times.at.length > 0 ? times.at[0] - times.began : NaN);
  times.rate = () => {
    const seconds = times.at.length > 1 ? (times.at[times.at.length - 1] - times.at[0]) / 1000 : 0;
    return seconds > 0 ? ((times.tokens || times.at.length) - 1) / seconds : NaN;
  };
  // In a line.
  times.told = () => {
    const gaps = times.gaps();
    const parts = [`first token ${times.at.length > 0 ? duration(times.first()) : "-"}`, `${times.tokens || times.at.length} tokens`];
    if (!Number.isNaN(times.rate())) parts.push(`${short(times.rate())} tokens/s`);
    if (gaps.length > 0) parts.push(`longest gap ${duration(Math.max(...gaps))}`);
    if (times.prompt > 0) parts.push(`prompt ${times.prompt}${times.cached > 0 ? `, ${times.cached} of it cached` : ""}`);
    return parts.join(" \u00b7 ");
  };
  return times;
}

// A chart of the gaps between the pieces of an answer.
export function gapsOf(times) {
  const canvas = picture(96);
  const gaps = times.gaps();
  canvas.draw = () => {
    const most = Math.max(1e-9, ...gaps);
    const context = canvas.begin(`gaps between ${gaps.length + 1} pieces of the answer, the longest ${duration(most)}`);
    const room = axes(context, canvas, { most, unit: duration, from: "1", to: `${gaps.length}`, below: "gap between pieces", title: "ms" });
    const width = room.width / Math.max(gaps.length, 60);
    context.fillStyle = colour("decode");
    gaps.forEach((gap, i) => context.fillRect(room.left + i * width, room.y(gap), Math.max(width - 0.5, 0.5), room.y(0) - room.y(gap)));
  };
  return canvas;
}
