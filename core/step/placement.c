/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache transaction of a step. The scheduler may already have reserved and preempted
 * in it (cache_service.c); the core does the rest of the plan, commits the transaction,
 * and fills the engine's batch from the result.
 *
 * A RUN that cannot be placed is dropped whole and reported (on_refused); one that could
 * never be placed ends with CAPACITY, so that no request waits forever.
 */
#include "core/step/phases.h"

#include <errno.h>

#include "core/base/least.h"
#include "core/cluster/migrate.h"
#include "core/cluster/offered.h"
#include "core/engine/batch.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/lists.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"
#include "core/step/constraint.h"
#include "core/step/drafts.h"

/* Preempts first, to free the memory that runs need. */
static void place_preempts(struct lls_instance *in)
{
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (item->kind != LLS_PLAN_PREEMPT || live == NULL || live->placed != LLS_PLACED_NOT)
      continue;
    int rc = lls_transaction_preempt(in, live, item->mode);
    if (rc < 0)
      lls_lifecycle_refuse(
          in, live, rc == -ENOTSUP ? LLS_REFUSED_UNSUPPORTED : LLS_REFUSED_NO_MEMORY);
  }
}

/* Reserves memory for a run; without its guesses where there is not enough for them. */
static int reserve_run(struct lls_instance *in, const struct lls_plan_item *item,
                       struct lls_live *live)
{
  int rc = lls_transaction_reserve(in, live, item->tokens + item->drafts, item->form, 0);
  if (rc > LLS_RESERVE_OK && item->drafts > 0)
    rc = lls_transaction_reserve(in, live, item->tokens, item->form, 0);
  return rc;
}

/* Places a run, for which the scheduler may have reserved memory already. */
static void place_run(struct lls_instance *in, const struct lls_plan_item *item,
                      struct lls_live *live)
{
  int rc = LLS_RESERVE_OK;
  if (live->placed == LLS_PLACED_NOT)
    rc = reserve_run(in, item, live);
  live->doomed = rc == LLS_RESERVE_NEVER;
  if (rc == LLS_RESERVE_OK && item->tokens < live->run_tokens)
    live->run_tokens = item->tokens;
  if (rc == LLS_RESERVE_OK)
    live->run_drafts = lls_least_u32(live->run_drafts, item->drafts);
  else if (rc == LLS_RESERVE_LATER)
    lls_lifecycle_refuse(in, live, LLS_REFUSED_NO_MEMORY);
  else if (rc == LLS_RESERVE_NEVER)
    lls_lifecycle_refuse(in, live, LLS_REFUSED_NEVER_FITS);
  else if (rc < 0)
    lls_lifecycle_refuse(in, live, LLS_REFUSED_UNSUPPORTED);
}

static void place_runs(struct lls_instance *in)
{
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (item->kind == LLS_PLAN_RUN && live != NULL)
      place_run(in, item, live);
  }
}

static void account_preempt(struct lls_instance *in, struct lls_live *live)
{
  if (live->preempt_mode == LLS_PREEMPT_DEFER)
    return;
  struct lls_request *v = &live->view;
  v->preemptions++;
  v->queue_enter_ns = lls_instance_now(in);
  if (live->preempt_mode == LLS_PREEMPT_RECOMPUTE) {
    in->status.preempted_recompute++;
    v->cached_tokens = 0;
    lls_lifecycle_set_state(in, live, LLS_WAITING);
  } else {
    in->status.preempted_swap++;
    lls_lifecycle_set_state(in, live, LLS_PREEMPTED);
  }
  lls_lifecycle_refresh(in, live);
}

/* After reservations that displaced slots of other requests: a request that has lost any
 * is preempted, and must get them back before it runs. */
static void account_displaced(struct lls_instance *in)
{
  struct lls_request_list *lists[] = {&in->preempted, &in->running};
  for (uint32_t k = 0; in->transaction.displaced && k < 2; k++)
    for (uint32_t i = lists[k]->n; i-- > 0;) {
      struct lls_live *live = lls_live_of(lists[k]->items[i]);
      if (live->placed == LLS_PLACED_RESERVED)
        continue;
      lls_lifecycle_refresh(in, live);
      if (live->view.missing_tokens == 0 || live->view.state == LLS_PREEMPTED)
        continue;
      in->status.displaced++;
      live->view.queue_enter_ns = lls_instance_now(in);
      lls_lifecycle_set_state(in, live, LLS_PREEMPTED);
    }
  in->transaction.displaced = false;
}

static void account_run(struct lls_instance *in, struct lls_live *live, int64_t now_ns)
{
  struct lls_request *v = &live->view;
  if (v->first_scheduled_ns == LLS_NEVER) {
    v->first_scheduled_ns = now_ns;
    live->prefix_tokens = live->context - v->cached_tokens;
    in->status.shared_tokens += live->prefix_tokens;
    if (live->prefix_tokens == live->prefix.tokens) {
      in->status.shared_on_host += live->prefix.on_host;
      in->status.shared_on_disk += live->prefix.on_disk;
    }
    in->status.shared_on_disk += lls_least_u32(live->disk_tokens, live->prefix_tokens);
    in->disk_ahead -= live->disk_ahead;
    live->disk_ahead = 0;
  }
  v->cached_tokens = live->context;
  live->was_decoding = v->state == LLS_DECODING;
  lls_lifecycle_set_state(in, live,
                          lls_request_decodes(v) ? LLS_DECODING : LLS_PREFILLING);
}

/* Requests prompt scores of the chunk, from the first token without one to the prompt's
 * end. */
static void add_scores(struct lls_live *live, struct lls_engine_sequence *s)
{
  uint32_t end = live->context + live->run_tokens + 1, first = live->n_scored;
  if (end > live->view.prompt_tokens)
    end = live->view.prompt_tokens;
  if (lls_live_unscored(live) == 0 || end <= first)
    return;
  s->first_score = first - 1 - live->context;
  s->n_scores = end - first;
  s->score_logprobs = live->score_logprobs;
  s->scores = live->scores + first;
}

/* Requests the pooled rows of the chunk that are missing: a preempted request may already
 * have some of them. */
static void add_pooled(struct lls_live *live, struct lls_engine_sequence *s)
{
  uint32_t end = live->context + live->run_tokens;
  uint32_t first = live->n_pooled > live->context ? live->n_pooled : live->context;
  if (live->pooling == LLS_POOLING_LAST)
    first = live->view.prompt_tokens - 1;
  if (live->pooling == LLS_POOLING_CLS)
    end = 1;
  if (live->pooling == LLS_POOLING_NONE || first >= end)
    return;
  s->first_pooled = first - live->context;
  s->n_pooled = end - first;
  s->pooled = live->pooled;
}

/* Sets what the next draw reads of the request's text. */
static void set_draw(struct lls_instance *in, struct lls_live *live, bool emits)
{
  struct lls_sampling *s = &live->sampling;
  uint32_t length = lls_request_length(&live->view), last = s->penalty_last_n;
  uint32_t first = last > 0 && last < length ? length - last : 0;
  uint32_t n_prompt = live->view.prompt_tokens;
  s->index = live->view.generated_tokens;
  s->history = live->tokens + first;
  s->n_history = length - first;
  s->n_prompt = n_prompt > first ? n_prompt - first : 0;
  s->n_bias = live->n_bias;
  /* the array is the request's own, which the device only reads */
  if (emits && live->dry.dry.multiplier > 0)
    s->n_bias += lls_dry_penalise(&live->dry, live->tokens, length,
                                  lls_engine_config(in->engine)->vocab,
                                  live->biases + live->n_bias);
  lls_lists_set(in, live);
}

static void add_sequence(struct lls_instance *in, struct lls_live *live)
{
  struct lls_step_batch *b = &in->batch;
  struct lls_block_table *table = &b->tables[b->n];
  lls_cache_table(in, &live->view, table); /* the engine refuses an empty one */
  bool emits = live->pooling == LLS_POOLING_NONE &&
               live->context + live->run_tokens == lls_request_length(&live->view);
  set_draw(in, live, emits);
  b->sequences[b->n] = (struct lls_engine_sequence){
      .tokens = live->tokens + live->context,
      .n_tokens = live->run_tokens,
      .context = live->context,
      .second_text = live->second_text,
      .adapter = live->lora,
      .adapter_scale = live->lora_scale,
      .table = table,
      .sampling = emits ? &live->sampling : NULL,
  };
  if (emits)
    lls_drafts_add(in, live, &b->sequences[b->n]);
  add_scores(live, &b->sequences[b->n]);
  add_pooled(live, &b->sequences[b->n]);
  live->row = b->n;
  b->live[b->n++] = live;
}

/* Fills the batch in the plan's order. */
static void build_batch(struct lls_instance *in)
{
  int64_t now_ns = lls_instance_now(in);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    struct lls_live *live = lls_request_table_find(in->table, in->plan.items[i].request);
    if (in->plan.items[i].kind != LLS_PLAN_RUN || live == NULL ||
        live->placed != LLS_PLACED_RESERVED)
      continue;
    account_run(in, live, now_ns);
    if (!lls_masks_hold(in, live))
      add_sequence(in, live);
  }
}

static void finish_rejected(struct lls_instance *in)
{
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if (live == NULL)
      continue;
    if (item->kind == LLS_PLAN_REJECT)
      lls_lifecycle_finish(in, live, item->reason);
    else if (live->doomed)
      lls_lifecycle_finish(in, live, LLS_FINISH_CAPACITY);
  }
}

void lls_instance_place(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  in->batch.n = in->batch.n_held = 0;
  in->batch.drafts.n_rows = in->batch.drafts.n_draws = 0;
  lls_leases_place(in);
  place_preempts(in);
  place_runs(in);
  lls_transfer_place(in);
  lls_offered_start_moves(in);
  lls_migrate_take(in);
  lls_leases_fetch(in);
  LLS_CALL(p, cache, commit);
  for (uint32_t i = 0; i < in->transaction.n_done; i++) {
    struct lls_live *live = in->transaction.done[i].live;
    if (live->placed == LLS_PLACED_PREEMPTED)
      account_preempt(in, live);
    else if (live->placed == LLS_PLACED_MOVING)
      lls_transfer_start(in, live);
  }
  account_displaced(in);
  build_batch(in);
  lls_transaction_close(in);
  lls_migrate_pull(in);
  lls_migrate_offer(in);
  lls_offered_request_moves(in);
  finish_rejected(in);
}
