/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out a record: from its fields to the kernel or product. */
#include "kernels/cuda/ops.h"

#include <string.h>

static int make_angles(struct lls_cuda_device *d, const struct lls_cuda_op *op)
{
  struct lls_cuda_angles a = {
      .n_rows = op->rope_write.n_rows,
      .pairs = op->rope_write.pairs,
      .factor = op->attention_factor,
      .angles = (float *)op->rope_write.angles,
  };
  memcpy(a.frequency, op->inverse_frequency, a.pairs * sizeof *a.frequency);
  return lls_cuda_run_angles(d->stream, d->step_at, &a);
}

/* The first layer makes the angles for all. */
static int rope_write(struct lls_cuda_device *d, const struct lls_cuda_op *op)
{
  int rc = op->make_angles ? make_angles(d, op) : 0;
  return rc != 0 ? rc
                 : lls_cuda_run_rope_write(d->stream, lls_cuda_numbers(d), d->step_at,
                                           &op->pool->view, &op->rope_write);
}

/* A plan of this step, or room for the plan of any step with these rows. */
static int attention(struct lls_cuda_device *d, const struct lls_cuda_op *op,
                     bool recording)
{
  enum lls_dtype numbers = lls_cuda_numbers(d);
  const struct lls_cuda_attention *a = &op->attention;
  if (!lls_cuda_attention_fits(numbers, &op->pool->view, a))
    return lls_cuda_run_attention_plain(d->stream, numbers, d->step_at, &op->pool->view,
                                        a);
  struct lls_cuda_grid grid = lls_cuda_plan_grid(d, a, recording);
  return lls_cuda_run_attention(d->stream, d->step_at, d->plan_at + a->plan,
                                &op->pool->view, &grid, d->states, a);
}

void lls_cuda_op_run(struct lls_cuda_device *d, const struct lls_cuda_op *op,
                     bool recording)
{
  enum lls_dtype numbers = lls_cuda_numbers(d);
  switch (op->kind) {
  case LLS_CUDA_EMBED:
    lls_cuda_step_check(d, lls_cuda_run_embed(d->stream, numbers, d->step_at, &op->embed),
                        "embed");
    break;
  case LLS_CUDA_NORM:
    lls_cuda_step_check(d, lls_cuda_run_norm(d->stream, numbers, &op->norm), "norm");
    break;
  case LLS_CUDA_LINEAR:
    lls_cuda_run_linear(d, &op->linear);
    break;
  case LLS_CUDA_ACTIVATE:
    lls_cuda_step_check(d, lls_cuda_run_activate(d->stream, numbers, &op->activate),
                        "activation");
    break;
  case LLS_CUDA_ADD:
    lls_cuda_step_check(d, lls_cuda_run_add(d->stream, numbers, &op->add), "add");
    break;
  case LLS_CUDA_ROPE_WRITE:
    lls_cuda_step_check(d, rope_write(d, op), "rope and cache_write");
    break;
  case LLS_CUDA_ATTENTION:
    lls_cuda_step_check(d, attention(d, op, recording), "attention");
    break;
  case LLS_CUDA_ROUTE:
    lls_cuda_step_check(d, lls_cuda_run_route(d->stream, &op->route), "routing");
    break;
  case LLS_CUDA_LINEAR_EXPERTS:
    lls_cuda_step_check(
        d, lls_cuda_run_linear_experts(d->stream, numbers, &op->linear_experts),
        "experts");
    break;
  case LLS_CUDA_CODES_EXPERTS:
    lls_cuda_step_check(d, lls_cuda_run_codes_product(d->stream, &op->codes_experts),
                        "experts' codes");
    break;
  case LLS_CUDA_COMBINE:
    lls_cuda_step_check(d, lls_cuda_run_combine(d->stream, numbers, &op->combine),
                        "adding experts");
    break;
  case LLS_CUDA_CAP:
    lls_cuda_step_check(d, lls_cuda_run_cap(d->stream, &op->cap), "capping logits");
    break;
  case LLS_CUDA_ALL_REDUCE:
    lls_cuda_run_all_reduce(d, &op->all_reduce);
    break;
  case LLS_CUDA_GATHER_COLUMNS:
    lls_cuda_run_gather_columns(d, &op->gather_columns);
    break;
  case LLS_CUDA_GATHER:
    lls_cuda_step_check(d, lls_cuda_run_gather(d->stream, numbers, &op->gather),
                        "gather");
    break;
  case LLS_CUDA_HIDDEN_WRITE:
    lls_cuda_step_check(
        d,
        lls_cuda_run_hidden_write(d->stream, numbers, d->step_at, &op->pool->view,
                                  op->hidden_write.layer, op->hidden_write.n_rows,
                                  op->hidden_write.columns, op->hidden_write.h),
        "keeping hidden states");
    break;
  case LLS_CUDA_RESTORE:
    lls_cuda_run_restore(d, op);
    break;
  }
}
