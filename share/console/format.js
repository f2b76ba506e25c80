// SPDX-License-Identifier: Apache-2.0
// Numbers as text.

export const whole = (number) => Math.round(number).toLocaleString("en");

export function short(number) {
  if (!Number.isFinite(number)) return String(number);
  const size = Math.abs(number);
  if (size >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return size >= 100 || Number.isInteger(number) ? String(Math.round(number)) : number.toPrecision(3);
}

export function duration(ms) {
  if (ms >= 60000) return `${(ms / 60000).toFixed(1)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10000 ? 0 : 1)} s`;
  return ms >= 10 ? `${Math.round(ms)} ms` : `${ms.toFixed(ms >= 1 ? 1 : 2)} ms`;
}

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
