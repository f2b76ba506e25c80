/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of K or V in int8, a scale for each channel of a head (ALISE, section 3.4): a
 * number x of a channel whose numbers in the block are least..most becomes
 *
 *   q = round((x - least) / step),  step = (most - least) / 255,  x' = least + step q
 *
 * The paper's form has a zero point, x' = step (q - z) with z = round(-least / step). It
 * says the same, but z of a channel of large numbers that differ little, as K has them,
 * is beyond what f16 counts exactly; least is not.
 *
 * least is rounded down to f16 and step, made of that, up: so all numbers lie between
 * least and least + 255 step, none is clipped, and |x - x'| <= step / 2 (but for the
 * rounding of x' itself). Numbers beyond f16's 65504 and what is no number are taken for
 * the nearest that is.
 *
 * A block of b tokens takes b + 4 bytes a channel, of bf16 2b: 0.625 of it at b = 16.
 */
#include "core/device/numbers.h"
#include "kernels/cpu/pool.h"

#include <string.h>

#define CHANNELS 64 /* taken at a time */
#define F16_MOST 65504.0f
#define STEPS    255

/* The f16 next below, or x itself. */
static uint16_t round_down(float x)
{
  uint16_t h = lls_f32_to_f16(x);
  if (lls_f16_to_f32(h) <= x)
    return h;
  if (h == 0)
    return 0x8001; /* the negative one next to zero */
  return h & 0x8000 ? h + 1 : h - 1;
}

/* The f16 next above x >= 0, or x itself. */
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

static void widen(const char *from, enum lls_dtype element, uint32_t n, float *out)
{
  if (element == LLS_F32) {
    memcpy(out, from, n * sizeof *out);
  } else {
    for (uint32_t i = 0; i < n; i++) {
      uint16_t half;
      memcpy(&half, from + i * sizeof half, sizeof half);
      out[i] = lls_bf16_to_f32(half);
    }
  }
}

static void narrow(const float *from, enum lls_dtype element, uint32_t n, char *out)
{
  if (element == LLS_F32) {
    memcpy(out, from, n * sizeof *from);
  } else {
    for (uint32_t i = 0; i < n; i++) {
      uint16_t half = lls_f32_to_bf16(from[i]);
      memcpy(out + i * sizeof half, &half, sizeof half);
    }
  }
}

/* Steps and least numbers of n channels of a head, and the steps' reciprocals. */
static void choose_scales(const struct lls_pool_shape *s, const char *from,
                          size_t slot_bytes, uint32_t n, uint16_t *step, uint16_t *least,
                          float *per_step, float *base)
{
  float low[CHANNELS], high[CHANNELS], x[CHANNELS];
  for (uint32_t slot = 0; slot < s->block_tokens; slot++, from += slot_bytes) {
    widen(from, s->element, n, x);
    for (uint32_t i = 0; i < n; i++) {
      low[i] = slot == 0 || x[i] < low[i] ? x[i] : low[i];
      high[i] = slot == 0 || x[i] > high[i] ? x[i] : high[i];
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    least[i] = round_down(clipped(low[i]));
    base[i] = lls_f16_to_f32(least[i]);
    step[i] = round_up((clipped(high[i]) - base[i]) / STEPS);
    per_step[i] = step[i] > 0 ? 1 / lls_f16_to_f32(step[i]) : 0;
  }
}

/* Some channels of one head of a layer. */
static void quantise_channels(const struct lls_pool_shape *s, const char *from,
                              size_t slot_bytes, uint32_t n, uint16_t *step,
                              uint16_t *least, uint8_t *to)
{
  float per_step[CHANNELS], base[CHANNELS], x[CHANNELS];
  choose_scales(s, from, slot_bytes, n, step, least, per_step, base);
  for (uint32_t slot = 0; slot < s->block_tokens; slot++) {
    widen(from + slot * slot_bytes, s->element, n, x);
    for (uint32_t i = 0; i < n; i++) {
      float q = (x[i] - base[i]) * per_step[i] + 0.5f;
      q = q > 0 ? q : 0; /* what is no number, too */
      to[slot * s->head_dim + i] = (uint8_t)(q < STEPS ? q : STEPS);
    }
  }
}

/* From one slot of each on. */
static void dequantise_channels(const struct lls_pool_shape *s, const uint8_t *from,
                                const uint16_t *step, const uint16_t *least, uint32_t n,
                                uint32_t n_slots, char *to)
{
  float width[CHANNELS], base[CHANNELS], x[CHANNELS];
  size_t slot_bytes = s->head_dim * lls_dtype_bytes(s->element);
  for (uint32_t i = 0; i < n; i++) {
    width[i] = lls_f16_to_f32(step[i]);
    base[i] = lls_f16_to_f32(least[i]);
  }
  for (uint32_t slot = 0; slot < n_slots; slot++) {
    for (uint32_t i = 0; i < n; i++)
      x[i] = base[i] + width[i] * (float)from[slot * s->head_dim + i];
    narrow(x, s->element, n, to + slot * slot_bytes);
  }
}

static uint32_t channels_from(const struct lls_pool_shape *s, uint32_t channel)
{
  uint32_t left = s->head_dim - channel;
  return left < CHANNELS ? left : CHANNELS;
}

static void quantise_block(const struct lls_pool_shape *s, struct lls_pool_block from,
                           struct lls_pool_block to)
{
  size_t number = lls_dtype_bytes(s->element), slot_bytes = s->head_dim * number;
  size_t heads = (size_t)s->layers * s->kv_heads;
  for (size_t head = 0; head < heads; head++)
    for (uint32_t channel = 0; channel < s->head_dim; channel += CHANNELS) {
      size_t first = head * s->block_tokens * s->head_dim + channel;
      uint16_t *step = to.scales + head * 2 * s->head_dim + channel;
      quantise_channels(s, from.numbers + first * number, slot_bytes,
                        channels_from(s, channel), step, step + s->head_dim,
                        (uint8_t *)to.numbers + first);
    }
}

void lls_cpu_widen(const struct lls_pool_shape *s, struct lls_pool_block from,
                   uint32_t from_slot, char *to, uint32_t to_slot, uint32_t n_slots)
{
  size_t number = lls_dtype_bytes(s->element);
  size_t heads = (size_t)s->layers * s->kv_heads;
  for (size_t head = 0; head < heads; head++)
    for (uint32_t channel = 0; channel < s->head_dim; channel += CHANNELS) {
      size_t slots = head * s->block_tokens;
      size_t first = (slots + from_slot) * s->head_dim + channel;
      size_t target = (slots + to_slot) * s->head_dim + channel;
      const uint16_t *step = from.scales + head * 2 * s->head_dim + channel;
      dequantise_channels(s, (const uint8_t *)from.numbers + first, step,
                          step + s->head_dim, channels_from(s, channel), n_slots,
                          to + target * number);
    }
}

void lls_cpu_convert(const struct lls_pool_shape *s, struct lls_pool_block from,
                     struct lls_pool_block to)
{
  if (from.scales == NULL) {
    quantise_block(s, from, to);
  } else if (to.scales == NULL) {
    lls_cpu_widen(s, from, 0, to.numbers, 0, s->block_tokens);
  } else {
    memmove(to.numbers, from.numbers,
            lls_block_bytes(s, LLS_ELEMENT_INT8) - lls_scale_bytes(s));
    memmove(to.scales, from.scales, lls_scale_bytes(s));
  }
}
