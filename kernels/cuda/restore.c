/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form's two operations; hidden.cu says what they do. A step with tokens to
 * restore makes no graph: how many there are is another number in each step, and the
 * products of even a few hundred take longer than launching them.
 *
 * With tensor parallel ranks each keeps its part of X, as long as its part of K, and they
 * put the parts together before the product, as on the CPU (kernels/cpu/restore.c).
 */
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <string.h>

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

/* Those of all positions, once for a pool. */
static int make_angles(const struct lls_cuda_device *d, const struct lls_cuda_op *op)
{
  struct lls_cuda_angles a = {
      .n_rows = op->pool->shape.max_context,
      .pairs = op->restore.pairs,
      .from_zero = 1,
      .factor = op->attention_factor,
      .angles = op->pool->angles,
  };
  memcpy(a.frequency, op->inverse_frequency, a.pairs * sizeof *a.frequency);
  return lls_cuda_run_angles(d->stream, d->step_at, &a);
}

/* Few numbers of rows, so that cuBLASLt knows the shapes. */
static uint32_t product_rows(uint32_t n)
{
  uint32_t rows = (n + 63) / 64 * 64;
  return rows < LLS_CUDA_RESTORE_ROWS ? rows : LLS_CUDA_RESTORE_ROWS;
}

static void restore_some(struct lls_cuda_device *d, const struct lls_cuda_op *op,
                         const struct lls_cuda_restore *a)
{
  enum lls_dtype numbers = lls_cuda_numbers(d);
  const struct lls_cuda_pool *pool = &op->pool->view;
  uint32_t columns = pool->kv_heads * pool->head_dim;
  const struct lls_cuda_linear product = {
      .weight = op->restore.qkv,
      .first = (uint32_t)op->restore.qkv->rows - 2 * columns,
      .outputs = 2 * columns,
      .x = op->pool->whole_x,
      .y = a->kv,
      .n_rows = product_rows(a->n_rows),
  };
  const struct lls_cuda_all_gather parts = {
      .n_rows = a->n_rows,
      .columns = columns,
      .part = a->x,
      .parts = op->pool->parts_of_x,
      .whole = op->pool->whole_x,
  };
  int rc = lls_cuda_run_restore_read(d->stream, numbers, d->step_at, pool, a);
  if (!lls_cuda_step_check(d, rc, "reading hidden states"))
    return;
  if (lls_cuda_n_ranks(d) > 1)
    lls_cuda_run_all_gather(d, &parts);
  lls_cuda_run_linear(d, &product);
  rc = lls_cuda_run_restore_write(d->stream, numbers, d->step_at, pool, a);
  lls_cuda_step_check(d, rc, "restoring keys and values");
}

void lls_cuda_run_restore(struct lls_cuda_device *d, const struct lls_cuda_op *op)
{
  struct lls_cuda_restore a = {
      .layer = op->restore.layer,
      .pairs = op->restore.pairs,
      .angles = op->pool->angles,
      .x = op->pool->restored_x,
      .kv = op->pool->restored,
  };
  if (op->make_angles)
    lls_cuda_step_check(d, make_angles(d, op), "angles");
  for (; a.first < d->n_restored && d->status == 0; a.first += a.n_rows) {
    uint32_t left = d->n_restored - a.first;
    a.n_rows = left < LLS_CUDA_RESTORE_ROWS ? left : LLS_CUDA_RESTORE_ROWS;
    restore_some(d, op, &a);
  }
}
