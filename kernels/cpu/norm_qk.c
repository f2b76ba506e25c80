/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMS norms of queries and keys: of each head (Qwen3), or of all heads together (OLMo 2).
 * Where all heads are normed together, ranks first add up their squares: one sum of two
 * values a row. A KV head that several ranks hold is counted by each, both in the
 * squares and in the number of columns, so the mean stays the same.
 */
#include "core/ranks/ranks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <math.h>

struct qk_norming {
  const struct lls_cpu_row_kernels *kernels;
  const struct lls_attention_shape *shape;
  const struct lls_qk_norm_shape *norm;
  float *qkv;     /* (n_rows, columns) */
  float *squares; /* (n_rows, 2) sums of squares of q and k, where ranks share them */
  size_t n_rows, columns;
  uint32_t ranks;
};

/* q is part 0, k is part 1, v is part 2. */
struct qk_part {
  float *x;
  const float *weight;
  size_t n; /* number of columns */
};

static struct qk_part part_of(const struct qk_norming *w, size_t row, int which)
{
  size_t q = (size_t)w->shape->heads * w->shape->head_dim;
  float *x = w->qkv + row * w->columns;
  if (which == 0)
    return (struct qk_part){x, w->norm->q, q};
  size_t kv = (size_t)lls_row_kv_heads(w->shape) * w->shape->head_dim;
  return which == 1 ? (struct qk_part){x + q, w->norm->k, kv}
                    : (struct qk_part){x + q + kv, w->norm->v, kv};
}

static void norm_part(const struct qk_norming *w, const struct qk_part *p)
{
  size_t each = w->norm->whole ? p->n : w->shape->head_dim;
  for (size_t i = 0; i < p->n; i += each)
    w->kernels->norm_rms(p->x + i, p->weight, w->norm->epsilon, each, p->x + i);
}

static void norm_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct qk_norming *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++)
    for (int which = 0; which < (w->norm->v != NULL ? 3 : 2); which++) {
      struct qk_part p = part_of(w, row, which);
      norm_part(w, &p);
    }
}

static void square_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct qk_norming *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = 2 * begin; i < 2 * end; i++) {
    struct qk_part p = part_of(w, i / 2, i % 2);
    double sum = 0;
    for (size_t k = 0; k < p.n; k++)
      sum += (double)p.x[k] * (double)p.x[k];
    w->squares[i] = (float)sum;
  }
}

static void scale_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct qk_norming *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = 2 * begin; i < 2 * end; i++) {
    struct qk_part p = part_of(w, i / 2, i % 2);
    double mean = (double)w->squares[i] / ((double)p.n * w->ranks);
    float factor = (float)(1 / sqrt(mean + (double)w->norm->epsilon));
    for (size_t k = 0; k < p.n; k++)
      p.x[k] *= factor * p.weight[k];
  }
}

void lls_cpu_norm_qk(struct lls_device *device, const struct lls_attention_shape *shape,
                     const struct lls_qk_norm_shape *norm, void *qkv)
{
  struct lls_cpu_device *d = lls_cpu(device);
  const struct lls_ranks *ranks = d->options.ranks;
  struct qk_norming w = {
      .kernels = &d->kernels.rows,
      .shape = shape,
      .norm = norm,
      .qkv = qkv,
      .squares = d->shared,
      .n_rows = d->step->n_rows,
      .columns = lls_qkv_width(shape),
      .ranks = ranks != NULL ? ranks->size : 1,
  };
  if (!norm->whole || w.ranks == 1) {
    lls_cpu_run_rows(d, norm_task, &w, w.n_rows, w.columns);
    return;
  }
  lls_cpu_run_rows(d, square_task, &w, w.n_rows, w.columns);
  lls_cpu_all_reduce(device, w.squares, d->step->n_rows, 2);
  lls_cpu_run_rows(d, scale_task, &w, w.n_rows, w.columns);
}
