/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a record: calls the kernel or product that its fields describe. */
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

/* Writes rotated K and V; the first layer's record also computes the angles for all
 * layers. */
static int rope_write(struct lls_cuda_device *d, const struct lls_cuda_op *op)
{
  int rc = op->make_angles ? make_angles(d, op) : 0;
  return rc != 0 ? rc
                 : lls_cuda_run_rope_write(
                       d->stream, lls_cuda_numbers(d), d->step_at + op->rope_write.group,
                       &op->pool->views[op->rope_write.group], &op->rope_write);
}

/* Runs attention with a plan of this step, or with a grid for the plan of any step of
 * these rows. */
static int attention(struct lls_cuda_device *d, const struct lls_cuda_op *op,
                     bool recording)
{
  enum lls_dtype numbers = lls_cuda_numbers(d);
  const struct lls_cuda_attention *a = &op->attention;
  const struct lls_cuda_step *step = d->step_at + a->group;
  const struct lls_cuda_pool *pool = &op->pool->views[a->group];
  if (!lls_cuda_attention_fits(numbers, pool, a))
    return lls_cuda_run_attention_plain(d->stream, numbers, step, pool, a);
  struct lls_cuda_grid grid = lls_cuda_plan_grid(d, a, recording);
  return lls_cuda_run_attention(d->stream, step, d->plan_at + a->plan, pool, &grid,
                                &d->states, a);
}

/* Returns the step's chains of spans; recording: the most that a step of these rows
 * has. */
static uint32_t chains_of(const struct lls_cuda_device *d, uint32_t n_rows,
                          bool recording)
{
  return recording ? n_rows : d->n_chains;
}

/* Returns the name of an operation in messages. */
static const char *name_of(enum lls_cuda_op_kind kind)
{
  static const char *const names[] = {
      [LLS_CUDA_EMBED] = "embed",
      [LLS_CUDA_NORM] = "norm",
      [LLS_CUDA_LINEAR] = "a linear layer",
      [LLS_CUDA_ACTIVATE] = "activation",
      [LLS_CUDA_ADD] = "add",
      [LLS_CUDA_ROPE_WRITE] = "rope and cache_write",
      [LLS_CUDA_ATTENTION] = "attention",
      [LLS_CUDA_ROUTE] = "routing",
      [LLS_CUDA_LINEAR_EXPERTS] = "experts",
      [LLS_CUDA_CODES_EXPERTS] = "experts' codes",
      [LLS_CUDA_COMBINE] = "adding experts",
      [LLS_CUDA_CAP] = "capping logits",
      [LLS_CUDA_GATHER] = "gather",
      [LLS_CUDA_CHANGE] = "changing rows",
      [LLS_CUDA_LATENT] = "filling latent rows",
      [LLS_CUDA_ALL_REDUCE] = "adding up over ranks",
      [LLS_CUDA_GATHER_COLUMNS] = "gathering logits",
      [LLS_CUDA_HIDDEN_WRITE] = "keeping hidden states",
      [LLS_CUDA_CONV] = "a short convolution",
      [LLS_CUDA_FOLD] = "folding tokens into states",
      [LLS_CUDA_NORM_GATED] = "a gated norm",
      [LLS_CUDA_GATE_COLUMNS] = "gating columns",
      [LLS_CUDA_ADAPT] = "changes of adapters",
      [LLS_CUDA_MIX_STREAMS] = "mixing streams",
      [LLS_CUDA_MATCH_SIZE] = "matching a stream's size",
      [LLS_CUDA_CUT_GATES] = "cutting gates",
      [LLS_CUDA_RESTORE] = "restoring a hidden cache",
  };
  return names[kind];
}

/* Runs a record and returns the error of launching it; functions with more detailed
 * errors report these themselves. */
static int run(struct lls_cuda_device *d, const struct lls_cuda_op *op, bool recording)
{
  enum lls_dtype numbers = lls_cuda_numbers(d);
  switch (op->kind) {
  case LLS_CUDA_EMBED:
    return lls_cuda_run_embed(d->stream, numbers, d->step_at, &op->embed);
  case LLS_CUDA_NORM:
    return lls_cuda_run_norm(d->stream, numbers, &op->norm);
  case LLS_CUDA_LINEAR:
    lls_cuda_run_linear(d, &op->linear);
    return 0;
  case LLS_CUDA_ACTIVATE:
    return lls_cuda_run_activate(d->stream, numbers, &op->activate);
  case LLS_CUDA_ADD:
    return lls_cuda_run_add(d->stream, numbers, &op->add);
  case LLS_CUDA_ROPE_WRITE:
    return rope_write(d, op);
  case LLS_CUDA_ATTENTION:
    return attention(d, op, recording);
  case LLS_CUDA_ROUTE:
    return lls_cuda_run_route(d->stream, &op->route);
  case LLS_CUDA_LINEAR_EXPERTS:
    return lls_cuda_run_linear_experts(d->stream, numbers, &op->linear_experts);
  case LLS_CUDA_CODES_EXPERTS:
    return lls_cuda_run_codes_product(d->stream, &op->codes_experts);
  case LLS_CUDA_COMBINE:
    return lls_cuda_run_combine(d->stream, numbers, &op->combine);
  case LLS_CUDA_CAP:
    return lls_cuda_run_cap(d->stream, &op->cap);
  case LLS_CUDA_ALL_REDUCE:
    lls_cuda_run_all_reduce(d, &op->all_reduce);
    return 0;
  case LLS_CUDA_GATHER_COLUMNS:
    lls_cuda_run_gather_columns(d, &op->gather_columns);
    return 0;
  case LLS_CUDA_GATHER:
    return lls_cuda_run_gather(d->stream, numbers, &op->gather);
  case LLS_CUDA_LATENT:
    return lls_cuda_run_latent(d->stream, numbers, &op->latent);
  case LLS_CUDA_CHANGE:
    return lls_cuda_run_change(d->stream, numbers, d->step_at, &op->change);
  case LLS_CUDA_HIDDEN_WRITE:
    return lls_cuda_run_hidden_write(d->stream, numbers, d->step_at, &op->pool->view,
                                     op->hidden_write.layer, op->hidden_write.n_rows,
                                     op->hidden_write.columns, op->hidden_write.h);
  case LLS_CUDA_CONV:
    return lls_cuda_run_conv(d->stream, numbers, d->step_at,
                             chains_of(d, op->conv.n_rows, recording), &op->conv);
  case LLS_CUDA_FOLD:
    return lls_cuda_run_fold(d->stream, numbers, d->step_at,
                             chains_of(d, op->fold.n_rows, recording), &op->fold);
  case LLS_CUDA_NORM_GATED:
    return lls_cuda_run_norm_gated(d->stream, numbers, &op->norm_gated);
  case LLS_CUDA_GATE_COLUMNS:
    return lls_cuda_run_gate_columns(d->stream, numbers, &op->gate_columns);
  case LLS_CUDA_ADAPT:
    return lls_cuda_run_adapt(d->stream, numbers, &op->adapt);
  case LLS_CUDA_MIX_STREAMS:
    return lls_cuda_run_mix_streams(d->stream, numbers, &op->mix_streams);
  case LLS_CUDA_MATCH_SIZE:
    return lls_cuda_run_match_size(d->stream, numbers, &op->match_size);
  case LLS_CUDA_CUT_GATES:
    return lls_cuda_run_cut_gates(d->stream, numbers, &op->cut_gates);
  case LLS_CUDA_RESTORE:
    lls_cuda_run_restore(d, op);
    return 0;
  }
  return cudaErrorInvalidValue;
}

void lls_cuda_op_run(struct lls_cuda_device *d, const struct lls_cuda_op *op,
                     bool recording)
{
  if (lls_cuda_step_check(d, run(d, op, recording), name_of(op->kind)))
    lls_cuda_debug_check(d, d->stream, name_of(op->kind));
}
