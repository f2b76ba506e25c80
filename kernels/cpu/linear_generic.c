/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference tiles: plain C, one row at a time, sums in double over all inputs of a
 * call. Also packs x where it stays f32, as (inputs, rows). The levels above use the
 * same function, since packing takes little time.
 */
#include "kernels/cpu/cpu.h"
#include "core/device/numbers.h"

#include <string.h>

#define ROW_BLOCK 96

static void pack_f32(const float *x, size_t stride, size_t n_rows, size_t columns,
                     size_t inputs, void *out)
{
  float *to = out;
  for (size_t k = 0; k < columns; k++) {
    for (size_t row = 0; row < n_rows; row++)
      *to++ = x[row * stride + k];
  }
  memset(to, 0, (inputs - columns) * n_rows * sizeof *to);
}

static size_t skip_f32(size_t n_rows, size_t k)
{
  return n_rows * k;
}

/* Output o of input k in a panel, as f32. */
static float weight_at(const char *panel, enum lls_packed packed, size_t k, size_t o)
{
  size_t i = k * LLS_PANEL + o;
  switch (packed) {
  case LLS_PACKED_F32:
    return ((const float *)panel)[i];
  case LLS_PACKED_F16:
    return lls_f16_to_f32(((const uint16_t *)panel)[i]);
  default:
    return lls_bf16_to_f32(
        ((const uint16_t *)panel)[(k / 2 * LLS_PANEL + o) * 2 + k % 2]);
  }
}

static void tile(const struct lls_tile *t, enum lls_packed packed)
{
  const float *x = t->x;
  for (size_t p = 0; p < t->panels; p++) {
    const char *panel = t->weight + p * t->panel_bytes;
    for (size_t row = 0; row < t->rows; row++) {
      float *sums = t->sums + p * t->sum_stride + row * LLS_PANEL;
      double sum[LLS_PANEL] = {0};
      for (size_t k = 0; k < t->inputs; k++) {
        for (size_t o = 0; o < LLS_PANEL; o++)
          sum[o] += (double)x[k * t->rows + row] * weight_at(panel, packed, k, o);
      }
      for (size_t o = 0; o < LLS_PANEL; o++)
        sums[o] = (float)(t->more ? sums[o] + sum[o] : sum[o]);
    }
  }
}

static void tile_f32(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_F32);
}

static void tile_f16(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_F16);
}

static void tile_bf16(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_BF16);
}

static void finish(const struct lls_finish *f)
{
  for (size_t row = 0; row < f->rows; row++) {
    for (size_t o = 0; o < f->outputs; o++) {
      float *y = f->y + row * f->y_stride + o;
      float out =
          f->sums[o / LLS_PANEL * f->sum_stride + row * LLS_PANEL + o % LLS_PANEL];
      if (f->scale != NULL)
        out *= f->scale[o];
      if (f->bias != NULL)
        out += f->bias[o];
      *y = f->add ? *y + out : out;
    }
  }
}

/* Uses a single group, so that no sum is cut and rounded between two calls. */
void lls_cpu_linear_generic(struct lls_cpu_linear_kernels *k)
{
  const struct lls_linear_kernel common = {
      .row_block = ROW_BLOCK,
      .max_rows = ROW_BLOCK,
      .row_unit = 1,
      .x_bytes = sizeof(float),
      .panels = 1,
      .pack = pack_f32,
      .skip = skip_f32,
      .finish = finish,
  };
  for (int i = 0; i < LLS_N_PACKED; i++)
    k->of[i] = common; /* codes_generic.c enters the codes' kernels */
  k->of[LLS_PACKED_F32].tile = tile_f32;
  k->of[LLS_PACKED_F16].tile = tile_f16;
  k->of[LLS_PACKED_BF16].tile = tile_bf16;
}
