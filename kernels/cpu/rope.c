/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary position embedding (RoFormer, Su et al., 2021, eq. 34) in pairs
 * (i, i + rotary_dims / 2).
 *
 * Angles are taken in double: position 1,000,000 times a frequency of 1 needs 20 bits
 * before the point, which leaves an f32 four after it. The first layer that needs the
 * cosines and sines of a step's rows computes them for all layers: a pair takes 40 ns,
 * so 2,048 rows of 32 pairs take 3 ms a step; in each of 22 layers it would be 60 ms.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <math.h>

struct turning {
  struct lls_cpu_device *device;
  const struct lls_rope_shape *rope;
  float *qkv;    /* (n_rows, columns) */
  float *angles; /* (n_rows, rotary_dims) the device's angles for this rope */
  size_t columns, rotated_heads, head_dim;
  bool fresh; /* the cosines and sines are already computed */
};

/* Returns the angles of a row: (2, rotary_dims / 2) cosines, then sines. */
static float *row_angles(const struct turning *w, size_t row)
{
  return w->angles + row * w->rope->rotary_dims;
}

void lls_cpu_angles(const struct lls_rope_shape *rope, double position, float *cosine)
{
  size_t half = rope->rotary_dims / 2;
  float *sine = cosine + half;
  double factor = (double)rope->attention_factor;
  for (size_t i = 0; i < half; i++) {
    double angle = position * (double)rope->inverse_frequency[i];
    cosine[i] = (float)(cos(angle) * factor);
    sine[i] = (float)(sin(angle) * factor);
  }
}

static void rope_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct turning *w = arg;
  size_t begin, end, half = w->rope->rotary_dims / 2;
  lls_cpu_share(w->device->step->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++) {
    if (!w->fresh)
      lls_cpu_angles(w->rope, w->device->step->positions[row], row_angles(w, row));
    const float *cosine = row_angles(w, row);
    float *x = w->qkv + row * w->columns + w->rope->first;
    for (size_t head = 0; head < w->rotated_heads; head++, x += w->head_dim)
      w->device->kernels.rows.rotate(cosine, cosine + half, half, x, x + half);
  }
}

size_t lls_cpu_rope_bytes(size_t max_rows)
{
  return LLS_CPU_ROPES * max_rows * LLS_HEAD_DIM_MAX * sizeof(float);
}

static bool same_rope(const struct lls_rope_shape *a, const struct lls_rope_shape *b)
{
  return a->inverse_frequency == b->inverse_frequency &&
         a->rotary_dims == b->rotary_dims && a->attention_factor == b->attention_factor;
}

/* Returns the index of this rope's angles; if no entry is free, the last one is
 * replaced. */
static int place_of(const struct lls_cpu_device *d, const struct lls_rope_shape *rope)
{
  int i = 0;
  while (i < LLS_CPU_ROPES - 1 && d->ropes[i].rotary_dims > 0 &&
         !same_rope(&d->ropes[i], rope))
    i++;
  return i;
}

/* Bytes of a call: rows x (heads + kv_heads) x rotary_dims x 8. Operations: 3 a dim. */
void lls_cpu_rope(struct lls_device *device, const struct lls_attention_shape *shape,
                  const struct lls_rope_shape *rope, void *qkv)
{
  struct lls_cpu_device *d = lls_cpu(device);
  if (rope->rotary_dims > LLS_HEAD_DIM_MAX ||
      rope->first + rope->rotary_dims > shape->head_dim) {
    lls_cpu_step_fail(d, -EINVAL, "rope over %u of %u dims; at most %u are supported",
                      rope->rotary_dims, shape->head_dim, LLS_HEAD_DIM_MAX);
    return;
  }
  int place = place_of(d, rope);
  struct turning w = {
      .device = d,
      .rope = rope,
      .qkv = qkv,
      .angles = d->angles + (size_t)place * d->options.max_rows * LLS_HEAD_DIM_MAX,
      .columns = lls_qkv_width(shape),
      .rotated_heads = shape->heads + lls_row_kv_heads(shape),
      .head_dim = shape->head_dim,
      .fresh = same_rope(&d->ropes[place], rope),
  };
  lls_cpu_run_rows(d, rope_task, &w, d->step->n_rows, w.columns);
  d->ropes[place] = *rope;
}
