/* SPDX-License-Identifier: Apache-2.0 */
/* INT8 blocks in plain C, channel after channel: the reference. */
#include "kernels/cpu/int8.h"
#include "core/device/numbers.h"

#include <string.h>

#define F16_MOST 65504.0f
#define STEPS    255

/* Rounds x down to an f16 value. */
static uint16_t round_down(float x)
{
  uint16_t h = lls_f32_to_f16(x);
  if (lls_f16_to_f32(h) <= x)
    return h;
  if (h == 0)
    return 0x8001; /* the f16 next below zero */
  return h & 0x8000 ? h + 1 : h - 1;
}

/* Rounds x >= 0 up to an f16 value. */
static uint16_t round_up(float x)
{
  uint16_t h = lls_f32_to_f16(x);
  return lls_f16_to_f32(h) < x ? h + 1 : h;
}

static float clipped(float x)
{
  if (!(x > -F16_MOST))
    return -F16_MOST;
  return x < F16_MOST ? x : F16_MOST;
}

static float number_at(const struct lls_int8_head *h, uint32_t slot, uint32_t dim)
{
  size_t i = (size_t)slot * h->dims + dim;
  uint16_t half;
  float x;
  if (h->bf16) {
    memcpy(&half, h->numbers + i * sizeof half, sizeof half);
    return lls_bf16_to_f32(half);
  }
  memcpy(&x, h->numbers + i * sizeof x, sizeof x);
  return x;
}

static void put_number(const struct lls_int8_head *h, uint32_t slot, uint32_t dim,
                       float x)
{
  size_t i = (size_t)slot * h->dims + dim;
  uint16_t half = lls_f32_to_bf16(x);
  if (h->bf16)
    memcpy(h->numbers + i * sizeof half, &half, sizeof half);
  else
    memcpy(h->numbers + i * sizeof x, &x, sizeof x);
}

static void choose_scale(const struct lls_int8_head *h, uint32_t dim)
{
  float low = number_at(h, 0, dim), high = low;
  for (uint32_t slot = 1; slot < h->n_slots; slot++) {
    float x = number_at(h, slot, dim);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  uint16_t least = round_down(clipped(low));
  h->scales[h->dims + dim] = least;
  h->scales[dim] = round_up((clipped(high) - lls_f16_to_f32(least)) / STEPS);
}

void lls_cpu_int8_quantise(const struct lls_int8_head *h, uint32_t first, uint32_t past)
{
  for (uint32_t dim = first; dim < past; dim++) {
    choose_scale(h, dim);
    float base = lls_f16_to_f32(h->scales[h->dims + dim]);
    float step = lls_f16_to_f32(h->scales[dim]), per_step = step > 0 ? 1 / step : 0;
    for (uint32_t slot = 0; slot < h->n_slots; slot++) {
      float q = (number_at(h, slot, dim) - base) * per_step + 0.5f;
      q = q > 0 ? q : 0; /* replaces NaN, too */
      h->codes[(size_t)slot * h->dims + dim] = (uint8_t)(q < STEPS ? q : STEPS);
    }
  }
}

void lls_cpu_int8_widen(const struct lls_int8_head *h, uint32_t first, uint32_t past)
{
  for (uint32_t dim = first; dim < past; dim++) {
    float step = lls_f16_to_f32(h->scales[dim]);
    float base = lls_f16_to_f32(h->scales[h->dims + dim]);
    for (uint32_t slot = 0; slot < h->n_slots; slot++)
      put_number(h, slot, dim,
                 base + step * (float)h->codes[(size_t)slot * h->dims + dim]);
  }
}

void lls_cpu_int8_generic(struct lls_cpu_int8_kernels *k)
{
  k->quantise = lls_cpu_int8_quantise;
  k->widen = lls_cpu_int8_widen;
}
