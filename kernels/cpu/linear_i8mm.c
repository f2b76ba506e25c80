/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16 weights with BFMMLA, which multiplies (2 outputs, 4 inputs) by (4 inputs, 2 rows):
 * two steps of a panel (inputs / 2, 16, 2) become such operands by interleaving their
 * pairs. x is rounded to bf16; a group is (inputs / 4, rows, 4). One row is multiplied
 * like two, so that its sums are rounded as those of many rows are. 24 registers hold the
 * sums of 6 rows.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define MAX_ROWS    6
#define MAX_SUMS    24 /* of (2 outputs, 2 rows) */
#define PANEL_PAIRS (LLS_PANEL / 2)
#define STEP_BYTES  (2 * LLS_PANEL * sizeof(uint16_t)) /* two inputs of a panel */

/* Four inputs of rows r and r + 1; 0 instead of a row that the group lacks. */
INLINE bfloat16x8_t pair_of(const uint16_t *x, const int r, const int rows)
{
  uint16x4_t second = r + 1 < rows ? vld1_u16(x + 4 * (r + 1)) : vdup_n_u16(0);
  return vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(x + 4 * r), second));
}

/* sum (panels, row pairs, PANEL_PAIRS) += four inputs at w times those at x. */
INLINE void multiply_four(const char *w, size_t panel_bytes, const uint16_t *x,
                          const int panels, const int rows, vf *sum)
{
  const int pairs = (rows + 1) / 2;
  UNROLL
  for (int i = 0; i < panels * 4; i++) {
    const char *at = w + i / 4 * panel_bytes + i % 4 * 16;
    uint32x4_t a = vld1q_u32((const uint32_t *)at);
    uint32x4_t b = vld1q_u32((const uint32_t *)(at + STEP_BYTES));
    bfloat16x8_t low = vreinterpretq_bf16_u32(vzip1q_u32(a, b));
    bfloat16x8_t high = vreinterpretq_bf16_u32(vzip2q_u32(a, b));
    UNROLL
    for (int p = 0; p < pairs; p++) {
      bfloat16x8_t two = pair_of(x, 2 * p, rows);
      vf *s = sum + (i / 4 * pairs + p) * PANEL_PAIRS + i % 4 * 2;
      s[0] = vbfmmlaq_f32(s[0], low, two);
      s[1] = vbfmmlaq_f32(s[1], high, two);
    }
  }
}

INLINE void keep_four(float *to, bool more, vf sum)
{
  vstore(to, more ? vadd(vload(to), sum) : sum);
}

/* Stores sum into sums (panels, sum_stride), or adds it if `more`. */
INLINE void keep(const struct lls_tile *t, float *sums, bool more, const int panels,
                 const int rows, const vf *sum)
{
  const int pairs = (rows + 1) / 2;
  UNROLL
  for (int i = 0; i < panels * pairs * 4; i++) {
    const int panel = i / 4 / pairs, row = i / 4 % pairs * 2;
    float *to = sums + panel * t->sum_stride + row * LLS_PANEL + i % 4 * LANES;
    keep_four(to, more, vuzp1q_f32(sum[2 * i], sum[2 * i + 1]));
    if (row + 1 < rows)
      keep_four(to + LLS_PANEL, more, vuzp2q_f32(sum[2 * i], sum[2 * i + 1]));
  }
}

/* Multiplies `panels` panels, from `first` on. */
INLINE void part(const struct lls_tile *t, size_t first, const int panels, const int rows)
{
  const char *w = t->weight + first * t->panel_bytes;
  const uint16_t *x = t->x;
  /* The prefetch of input k: k + lead or, in the next panels, k - (inputs - lead). */
  const size_t input_bytes = STEP_BYTES / 2, turn = t->inputs - t->lead;
  const char *same = t->lead != 0 ? w + t->lead * input_bytes : t->x_next;
  const char *next = w + panels * t->panel_bytes - turn * input_bytes;
  for (size_t k = 0, end; k < t->inputs; k = end) {
    end = t->inputs - k < LLS_DEPTH ? t->inputs : k + LLS_DEPTH;
    vf sum[MAX_SUMS];
    UNROLL
    for (int i = 0; i < MAX_SUMS; i++)
      sum[i] = vzero();
    for (size_t j = k; j < end; j += 4) {
      const char *ahead = (j < turn ? same : next) + j * input_bytes;
      UNROLL
      for (int p = 0; p < panels; p++) {
        prefetch_l1(ahead + p * t->panel_bytes);
        prefetch_l1(ahead + p * t->panel_bytes + STEP_BYTES);
      }
      multiply_four(w + j * input_bytes, t->panel_bytes, x + j * rows, panels, rows, sum);
    }
    keep(t, t->sums + first * t->sum_stride, t->more || k > 0, panels, rows, sum);
  }
}

/* Multiplies all panels, `panels` at a time. */
INLINE void run(const struct lls_tile *t, const int panels, const int rows)
{
  size_t i = 0;
  for (; i + (size_t)panels <= t->panels; i += (size_t)panels)
    part(t, i, panels, rows);
  for (; i < t->panels; i++)
    part(t, i, 1, rows);
}

static void tile_bf16(const struct lls_tile *t)
{
  switch (t->rows) {
  case 1:
    return run(t, 2, 1);
  case 2:
    return run(t, 2, 2);
  case 3:
    return run(t, 1, 3);
  case 4:
    return run(t, 1, 4);
  case 5:
    return run(t, 1, 5);
  default:
    return run(t, 1, 6);
  }
}

/* Packs x as (inputs / 4, rows, 4) bf16. */
static void pack_fours(const float *x, size_t stride, size_t n_rows, size_t columns,
                       size_t inputs, void *out)
{
  uint16_t *to = out;
  for (size_t k = 0; k < inputs; k += LANES) {
    for (size_t row = 0; row < n_rows; row++, to += LANES) {
      vf some = columns > k ? vget(x + row * stride + k, columns - k) : vzero();
      vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(some)));
    }
  }
}

void lls_cpu_linear_i8mm(struct lls_cpu_linear_kernels *k)
{
  struct lls_linear_kernel *of = &k->of[LLS_PACKED_BF16];
  of->max_rows = MAX_ROWS;
  of->panels = 1;
  of->tile = tile_bf16;
  of->pack = pack_fours;
  of->x_bytes = sizeof(uint16_t);
}
