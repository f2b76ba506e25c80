/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks of grammars are made by turns. A request with little work for its masks is in the
 * step, and its mask is filled beside the forward pass. One whose last token took much,
 * or whose mask was not whole in a step, is held: the step computes no row of it until
 * its mask is whole, so that it costs the others nothing of the device. Those that are
 * held have their masks made by turns, within the budget of steps that compute others
 * (mask_budget.c), or in steps of their own where nothing else runs.
 *
 * What is held has its place in the cache, as if its row had been computed and no token
 * had come of it. The scheduler hears LLS_REFUSED_POSTPONED, and plans it again.
 */
#include "core/step/constraint.h"

#include "core/base/least.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"

/* Its last token is computed once more in the next step. It is not the only one, or there
 * would be no cache that goes on. */
static bool may_postpone(const struct lls_instance *in, const struct lls_live *live)
{
  return in->caps.chunked_prefill && live->context + live->run_tokens > 1;
}

/* ---- placement --------------------------------------------------------------------- */

/* The row restores its cache from hidden form. */
static bool is_restored(struct lls_instance *in, const struct lls_live *live)
{
  struct lls_block_table table;
  return lls_cache_table(in, &live->view, &table) == 0 && table.x_count > 0;
}

bool lls_masks_hold(struct lls_instance *in, struct lls_live *live)
{
  const struct lls_constraint *c = &live->constraint;
  struct lls_step_batch *b = &in->batch;
  LLS_ON_STEP(in);
  bool emits = live->context + live->run_tokens == lls_request_length(&live->view);
  if (c->grammar == NULL || !emits || c->whole || lls_masks_are_light(in, live) ||
      !may_postpone(in, live) || is_restored(in, live))
    return false;
  b->held[b->n_held++] = live;
  in->status.postponed_draws++;
  live->run_tokens--;
  return live->run_tokens == 0;
}

void lls_masks_forget(struct lls_instance *in, const struct lls_live *live)
{
  struct lls_step_batch *b = &in->batch;
  LLS_ON_STEP(in);
  for (uint32_t i = b->n_held; i-- > 0;)
    if (b->held[i] == live)
      b->held[i] = b->held[--b->n_held];
}

void lls_masks_release(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  struct lls_step_batch *b = &in->batch;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < b->n_held; i++) {
    struct lls_live *live = b->held[i];
    if (live->run_tokens > 0) /* it is in the batch, up to its last token */
      continue;
    LLS_CALL(p, cache, computed, &live->view, live->view.cached_tokens);
    if (!live->was_decoding)
      lls_lifecycle_refresh(in, live);
    if (LLS_SCHEDULER_HAS(p, on_refused))
      LLS_CALL(p, scheduler, on_refused, &live->view, LLS_REFUSED_POSTPONED);
  }
  b->n_held = 0;
}

/* ---- the masks --------------------------------------------------------------------- */

/* In free units, or beyond them in those that are left. */
static void fill_light(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  uint64_t more = *left < UINT64_MAX - LLS_MASK_FREE ? LLS_MASK_FREE : 0;
  uint64_t most = may_postpone(in, live) ? *left + more : UINT64_MAX;
  uint64_t took = lls_constraint_fill(in, live, most);
  lls_masks_charge(in, left, took - lls_least_u64(took, more));
}

/* It could not be held. */
static void fill_heavy(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  uint64_t most = may_postpone(in, live) ? *left : UINT64_MAX;
  if (most > 0)
    lls_masks_charge(in, left, lls_constraint_fill(in, live, most));
}

static void fill_row(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  struct lls_constraint *c = &live->constraint;
  if (!c->whole && lls_masks_are_light(in, live))
    fill_light(in, live, left);
  else if (!c->whole)
    fill_heavy(in, live, left);
  c->postponed = !c->whole;
  in->status.postponed_draws += c->postponed;
  if (c->whole)
    lls_constraint_cut(in, live);
}

/* Another one is first in each step. */
static void fill_held(struct lls_instance *in, uint64_t *left)
{
  const struct lls_step_batch *b = &in->batch;
  for (uint32_t i = 0; i<b->n_held && * left> 0; i++) {
    struct lls_live *live = b->held[(in->step + i) % b->n_held];
    lls_masks_charge(in, left, lls_constraint_fill(in, live, *left));
  }
}

/* There is a row of a request that is not here for what a mask took. */
static bool has_others(const struct lls_instance *in)
{
  const struct lls_step_batch *b = &in->batch;
  for (uint32_t i = 0; i < b->n; i++)
    if (b->live[i]->constraint.grammar == NULL || lls_masks_are_light(in, b->live[i]))
      return true;
  return false;
}

void lls_masks_fill(void *context)
{
  struct lls_instance *in = context;
  const struct lls_step_batch *b = &in->batch;
  LLS_ON_STEP(in);
  int64_t began_ns = lls_instance_now(in);
  uint64_t left = lls_masks_begin(in, has_others(in));
  for (uint32_t i = 0; i < b->n; i++)
    if (b->live[i]->constraint.grammar != NULL && b->sequences[i].sampling != NULL)
      fill_row(in, b->live[i], &left);
  fill_held(in, &left);
  in->mask_ns = lls_instance_now(in) - began_ns;
}
