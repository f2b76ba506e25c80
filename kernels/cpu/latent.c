/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-head latent attention, absorbed: the products with each head's own matrices
 * before and after attention (core/device/device.h). Attention itself is the ordinary one
 * of many heads that share one key-value head, which is the latent.
 *
 * Bytes of a call: heads x rank x nope, or value, weights. Operations: 2 for each of them
 * and row.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <string.h>

struct latent {
  const struct lls_cpu_row_kernels *kernels;
  const struct lls_latent_shape *shape;
  const float *q, *kv;
  float *rows;
  size_t n_rows;
};

/* The numbers of a row that no product makes: the parts that are rotated, and the normed
 * latent. */
static void fill_row(const struct latent *w, size_t row)
{
  const struct lls_latent_shape *s = w->shape;
  size_t each = s->nope + s->rope, plain = s->rank + s->rope, width = plain + s->index;
  const float *q = w->q + row * s->heads * each + s->nope;
  const float *kv = w->kv + row * plain, *keys = s->index_keys;
  float *to = w->rows + row * (s->heads + 1) * width;
  for (uint32_t head = 0; head < s->heads; head++, to += width, q += each) {
    memcpy(to + s->rank, q, s->rope * sizeof *to);
    memset(to + plain, 0, s->index * sizeof *to);
  }
  w->kernels->norm_rms(kv, s->norm, s->epsilon, s->rank, to);
  memcpy(to + s->rank, kv + s->rank, s->rope * sizeof *to);
  memset(to + plain, 0, s->index * sizeof *to);
  if (keys != NULL)
    memcpy(to + plain, keys + row * s->index, s->index * sizeof *to);
}

static void fill_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct latent *w = arg;
  size_t begin, end;
  lls_cpu_share(w->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t row = begin; row < end; row++)
    fill_row(w, row);
}

void lls_cpu_latent_rows(struct lls_device *device, const struct lls_latent_shape *s,
                         const struct lls_experts *keys, const void *q, const void *kv,
                         void *rows)
{
  struct lls_cpu_device *d = lls_cpu(device);
  size_t each = s->nope + s->rope, width = s->rank + s->rope + s->index;
  const struct lls_cpu_heads absorbed = {
      .weights = lls_cpu_expert_weights(keys),
      .heads = s->heads,
      .x = q,
      .x_head = each,
      .x_stride = s->heads * each,
      .y = rows,
      .y_head = width,
      .y_stride = (s->heads + 1) * width,
  };
  struct latent w = {&d->kernels.rows, s, q, kv, rows, d->step->n_rows};
  lls_cpu_linear_heads(d, &absorbed, d->step->n_rows);
  lls_cpu_run_rows(d, fill_task, &w, w.n_rows, s->heads * s->rope + width);
}

void lls_cpu_latent_values(struct lls_device *device, const struct lls_latent_shape *s,
                           const struct lls_experts *values, const void *x, void *y)
{
  struct lls_cpu_device *d = lls_cpu(device);
  size_t width = s->rank + s->rope + s->index;
  const struct lls_cpu_heads outputs = {
      .weights = lls_cpu_expert_weights(values),
      .heads = s->heads,
      .x = x,
      .x_head = width,
      .x_stride = s->heads * width,
      .y = y,
      .y_head = s->value,
      .y_stride = (size_t)s->heads * s->value,
  };
  lls_cpu_linear_heads(d, &outputs, d->step->n_rows);
}
