/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores keys and values from hidden states, some rows at a time. Tensor-parallel
 * ranks gather their parts of X before the product, as on the CPU
 * (kernels/cpu/restore.c).
 */
#include "kernels/cuda/ops.h"

#include <string.h>

/* Computes the angles of all positions, once for a pool. */
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

/* Rounds to one of few row counts, so that cuBLASLt's shapes repeat. */
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
      .first = (uint32_t)op->restore.qkv->outputs - 2 * columns,
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
