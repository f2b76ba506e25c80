/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention, absorbed (core/device/device.h), as records: the products
 * with each head's own matrices before and after attention, and what lies between. */
#include "kernels/cuda/ops.h"

void lls_cuda_latent_rows(struct lls_device *device, const struct lls_latent_shape *s,
                          const struct lls_experts *keys, const void *q, const void *kv,
                          void *rows)
{
  struct lls_cuda_device *d = lls_cuda(device);
  uint32_t each = s->nope + s->rope, width = s->rank + s->rope;
  const struct lls_cuda_heads queries = {
      .at = (void *)(uintptr_t)q, /* only read from */
      .stride = s->heads * each,
      .head = each,
  };
  const struct lls_cuda_heads absorbed = {
      .at = rows,
      .stride = (s->heads + 1) * width,
      .head = width,
  };
  struct lls_cuda_latent *a = &lls_cuda_op_add(d, LLS_CUDA_LATENT)->latent;
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->shape.heads = s->heads;
  a->shape.nope = s->nope;
  a->shape.rope = s->rope;
  a->shape.rank = s->rank;
  a->shape.norm = s->norm;
  a->shape.epsilon = s->epsilon;
  a->q = q;
  a->kv = kv;
  a->rows = rows;
  lls_cuda_multiply_heads(d, keys, d->step->n_rows, &queries, &absorbed);
}

void lls_cuda_latent_values(struct lls_device *device, const struct lls_latent_shape *s,
                            const struct lls_experts *values, const void *x, void *y)
{
  struct lls_cuda_device *d = lls_cuda(device);
  uint32_t width = s->rank + s->rope;
  const struct lls_cuda_heads attended = {
      .at = (void *)(uintptr_t)x, /* only read from */
      .stride = s->heads * width,
      .head = width,
  };
  const struct lls_cuda_heads outputs = {
      .at = y,
      .stride = s->heads * s->value,
      .head = s->value,
  };
  lls_cuda_multiply_heads(d, values, d->step->n_rows, &attended, &outputs);
}
