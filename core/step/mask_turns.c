/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the requests whose grammar masks are filled in a step. A request whose masks
 * are light is in the step, and its mask is filled beside the forward pass. A request
 * whose previous token took much work, or whose mask stayed incomplete in a step, is
 * held: its last token is not computed until its mask is complete, so that it costs the
 * other requests no device time. Held requests get work in rotation, within the budget
 * of steps that compute others (mask_budget.c), or in steps without a forward pass if
 * nothing else can run.
 *
 * A held request keeps its place in the cache, as if its last token had been computed
 * and none drawn. The scheduler gets LLS_REFUSED_POSTPONED and plans the request again.
 */
#include "core/step/constraint.h"

#include "core/base/least.h"
#include "core/engine/batch.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/step/drafts.h"

/* A postponed draw computes the request's last token again in the next step. Before it
 * there must be another token, or no cache would be left to continue from. */
static bool may_postpone(const struct lls_instance *in, const struct lls_live *live)
{
  return in->caps.chunked_prefill && live->context + live->run_tokens > 1;
}

/* ---- placement --------------------------------------------------------------------- */

/* Returns true if this step restores the request's cache from hidden form. */
static bool is_restored(struct lls_instance *in, const struct lls_live *live)
{
  struct lls_block_table table;
  return lls_cache_table(in, &live->view, &table) == 0 && lls_table_has_hidden(&table);
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
    if (live->run_tokens > 0) /* the batch computes its tokens up to the last one */
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

/* The token has been computed, and would be a second time: a state would have it twice.
 */
static bool may_compute_again(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_group *last = in->caps.groups[in->caps.n_groups - 1];
  return last->kind != LLS_GROUP_STATE && may_postpone(in, live);
}

/* Fills a light mask with free units, then with units of the budget. */
static void fill_light(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  uint64_t more = *left < UINT64_MAX - LLS_MASK_FREE ? LLS_MASK_FREE : 0;
  uint64_t most = may_compute_again(in, live) ? *left + more : UINT64_MAX;
  uint64_t took = lls_constraint_fill(in, live, most);
  lls_masks_charge(in, left, took - lls_least_u64(took, more));
}

/* Fills a heavy mask whose request could not be held. */
static void fill_heavy(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  uint64_t most = may_compute_again(in, live) ? *left : UINT64_MAX;
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

/* Fills the masks behind guesses with the rest of the budget. They leave no debt, which
 * held requests would pay: without its mask a guess does not count. */
static void fill_guesses(struct lls_instance *in, uint64_t left)
{
  struct lls_step_batch *b = &in->batch;
  for (uint32_t i = 0; i < b->n; i++) {
    struct lls_live *live = b->live[i];
    if (live->constraint.grammar == NULL || b->sequences[i].drafts == 0 ||
        !live->constraint.whole)
      continue;
    if (left > 0)
      left -= lls_least_u64(left, lls_drafts_fill_masks(in, live, &b->sequences[i]));
    else
      live->n_usable = 1;
  }
}

/* Shares the rest of the budget among held requests, beginning with another in each
 * step. */
static void fill_held(struct lls_instance *in, uint64_t *left)
{
  const struct lls_step_batch *b = &in->batch;
  for (uint32_t i = 0; i<b->n_held && * left> 0; i++) {
    struct lls_live *live = b->held[(in->step + i) % b->n_held];
    lls_masks_charge(in, left, lls_constraint_fill(in, live, *left));
  }
}

/* Returns true if the batch has a request with light masks or none. */
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
  fill_guesses(in, left);
  in->masks.mask_ns = lls_instance_now(in) - began_ns;
}
