/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form's two operations; hidden.cu describes them. A step with tokens to
 * restore makes no graph: the number of tokens differs in each step, and the products
 * of even a few hundred tokens take longer than launching them. Each tensor-parallel
 * rank keeps its part of X, as long as its part of K.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>

static bool has_scratch(struct lls_cuda_device *d, uint32_t layer)
{
  if (d->pool == NULL || d->pool->restored == NULL || layer >= d->pool->shape.layers)
    lls_cuda_step_fail(d, -ENOTSUP, "this pool was made without room for a hidden cache");
  return d->status == 0;
}

void lls_cuda_hidden_write(struct lls_device *device,
                           const struct lls_attention_shape *shape, uint32_t layer,
                           const void *h)
{
  struct lls_cuda_device *d = lls_cuda(device);
  size_t part = (size_t)shape->kv_heads * shape->head_dim;
  uint32_t rank = d->options.ranks != NULL ? d->options.ranks->rank : 0;
  if (!has_scratch(d, layer))
    return;
  struct lls_cuda_op *op = lls_cuda_op_add(d, LLS_CUDA_HIDDEN_WRITE);
  op->pool = d->pool;
  op->hidden_write.layer = layer;
  op->hidden_write.n_rows = lls_cuda_padded(d->step->n_rows);
  op->hidden_write.columns = (uint32_t)part * lls_cuda_n_ranks(d);
  op->hidden_write.h =
      (const char *)h + rank * part * lls_dtype_bytes(lls_cuda_numbers(d));
}

void lls_cuda_restore(struct lls_device *device, const struct lls_attention_shape *shape,
                      const struct lls_rope_shape *rope, uint32_t layer,
                      const struct lls_weight *qkv)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (!has_scratch(d, layer))
    return;
  struct lls_pool *p = d->pool;
  uint32_t columns = p->shape.kv_heads * p->shape.head_dim;
  if (qkv->columns != (size_t)columns * lls_cuda_n_ranks(d) ||
      shape->kv_heads != p->shape.kv_heads || shape->head_dim != p->shape.head_dim ||
      qkv->rows != (size_t)(shape->heads + 2 * shape->kv_heads) * shape->head_dim ||
      rope->rotary_dims > p->shape.head_dim || rope->rotary_dims > LLS_CUDA_ROTARY_MAX) {
    lls_cuda_step_fail(d, -EINVAL, "hidden states of %zu in a cache of %u", qkv->columns,
                       columns);
    return;
  }
  struct lls_cuda_op *op = lls_cuda_op_add(d, LLS_CUDA_RESTORE);
  op->pool = p;
  op->restore.layer = layer;
  op->restore.pairs = rope->rotary_dims / 2;
  op->restore.qkv = qkv;
  op->inverse_frequency = rope->inverse_frequency;
  op->attention_factor = rope->attention_factor;
  op->make_angles = rope->rotary_dims > 0 && !lls_cuda_same_rope(&p->angles_of, rope);
  if (op->make_angles)
    p->angles_of = *rope;
}
