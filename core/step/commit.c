/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the forward pass: computed tokens are marked cached, drawn tokens are appended
 * and sent, finished requests leave, and the policies get the step's results and
 * duration.
 */
#include "core/step/phases.h"

#include "core/cost/cost.h"
#include "core/cost/samples.h"
#include "core/engine/batch.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/lists.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/policy/plan_memory.h"
#include "core/step/constraint.h"
#include "core/step/disk_tier.h"
#include "core/step/drafts.h"

static bool stops(const struct lls_live *live, int32_t token)
{
  return live->view.generated_tokens > live->min_new_tokens &&
         lls_live_stops_at(live, token);
}

/* Appends the tokens that the grammar forces after the drawn token, if any. They are
 * pending from now on, as if they had been drawn. */
static void append_forced(struct lls_instance *in, struct lls_live *live,
                          struct lls_event *event)
{
  struct lls_request *v = &live->view;
  event->forced = live->tokens + lls_request_length(v);
  event->n_forced = lls_constraint_jump(in, live);
  v->forced_tokens = event->n_forced;
  v->generated_tokens += event->n_forced;
  in->status.generated_tokens += event->n_forced;
  in->status.forced_tokens += event->n_forced;
}

static uint32_t end_of(const struct lls_instance *in, const struct lls_live *live,
                       bool stopped)
{
  const struct lls_request *v = &live->view;
  if (stopped || lls_constraint_complete(in, live))
    return LLS_FINISH_STOP;
  return v->generated_tokens >= v->max_new_tokens ? LLS_FINISH_LENGTH : LLS_FINISH_NONE;
}

/* Returns the token that ends a thought beyond its budget, or -1. A grammar may need
 * another token first, such as the rest of a character. */
static int32_t closing_token(struct lls_live *live, const struct lls_sampling *draw)
{
  const struct lls_request *v = &live->view;
  int32_t token = lls_thought_next(&live->thought, live->tokens + v->prompt_tokens,
                                   v->generated_tokens);
  return token >= 0 && !lls_sampling_masks(draw, (uint32_t)token) ? token : -1;
}

/* A draw of the step. */
struct draw {
  const struct lls_sampling *how;
  const struct lls_sampled *token;
  int32_t guess; /* of this token; -1: none, or the draw after it does not count */
};

/* Appends the drawn token and the forced ones. Returns how many. Returns 0 if the
 * request's constraints allow no token, the logits were not numbers or the grammar
 * refuses the token: the request then ends. */
static uint32_t append(struct lls_instance *in, struct lls_live *live,
                       const struct draw *draw, int64_t now_ns)
{
  struct lls_request *v = &live->view;
  const struct lls_sampled *token = draw->token;
  if (live->exhausted) {
    v->finish_reason = lls_lists_end(in, live);
    return 0;
  }
  /* a surprise of tau leaves mirostat's state as it is, in every process */
  const struct lls_sampled closing = {.token = closing_token(live, draw->how),
                                      .surprise = live->sampling.more.mirostat_tau};
  if (closing.token >= 0)
    token = &closing;
  if (token->token == LLS_NO_NUMBER) {
    live->no_number = true;
    v->finish_reason = LLS_FINISH_ERROR;
    return 0;
  }
  if (lls_constraint_take(in, live, token->token) < 0) {
    v->finish_reason = LLS_FINISH_ERROR;
    return 0;
  }
  live->tokens[lls_request_length(v)] = token->token;
  v->generated_tokens++;
  lls_sampling_observe(&live->sampling, token);
  v->last_token_ns = now_ns;
  if (live->first_token_ns == LLS_NEVER)
    live->first_token_ns = now_ns;
  in->status.generated_tokens++;

  bool stopped = stops(live, token->token);
  struct lls_event *event = lls_outbox_add(in->outbox);
  event->kind = LLS_EVENT_TOKEN;
  event->request = v->id;
  event->owner = live->owner;
  event->hidden_token = stopped || lls_constraint_hides(in, live, token->token);
  event->shared_tokens = live->prefix_tokens;
  event->prompt_scores = live->scores;
  event->n_prompt_scores =
      live->scores != NULL && v->generated_tokens == 1 ? v->prompt_tokens : 0;
  lls_sampled_copy(&event->token, token);
  event->n_forced = v->forced_tokens = 0;
  v->finish_reason = end_of(in, live, stopped);
  if (v->finish_reason == LLS_FINISH_NONE && token->token != draw->guess) {
    append_forced(in, live, event);
    v->finish_reason = end_of(in, live, false);
  }
  lls_live_name_blocks(live);
  return 1 + event->n_forced;
}

/* Appends the tokens that were drawn for a sequence, up to the first one that is not as
 * guessed. Returns how many draws were used; *emitted: tokens, with forced ones. */
static uint32_t append_draws(struct lls_instance *in, uint32_t i,
                             const struct lls_sampled *sampled, int64_t now_ns,
                             uint32_t *emitted)
{
  struct lls_live *live = in->batch.live[i];
  const struct lls_engine_sequence *s = &in->batch.sequences[i];
  const int32_t *guesses = s->tokens + s->n_tokens - s->drafts;
  uint32_t usable = s->drafts > 0 ? live->n_usable : 1, n = 0;
  bool goes_on = true;
  *emitted = 0;
  while (goes_on && n < usable) {
    const struct draw draw = {.how = &s->sampling[n],
                              .token = &sampled[n],
                              .guess = n + 1 < usable ? guesses[n] : -1};
    uint32_t new = append(in, live, &draw, now_ns);
    goes_on = new == 1 && live->view.finish_reason == LLS_FINISH_NONE &&
              live->tokens[lls_request_length(&live->view) - 1] == draw.guess;
    *emitted += new;
    n += new > 0;
  }
  return n;
}

/* Counts a step's guesses, and clears those of a text that has grown. */
static void note_drafts(struct lls_instance *in, uint32_t i, uint32_t accepted)
{
  struct lls_live *live = in->batch.live[i];
  uint32_t drafted = in->batch.sequences[i].drafts;
  live->drafted += drafted;
  live->accepted += accepted;
  in->status.drafted_tokens += drafted;
  in->status.accepted_tokens += accepted;
  if (drafted > 0)
    lls_drafter_verified(in, live, drafted, accepted);
  lls_drafts_clear(in, live);
}

/* Reports a part of the prompt that a step has computed; the first token reports its
 * end. */
static void report_progress(struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  if (!live->reports_progress || v->generated_tokens > 0 ||
      v->cached_tokens >= v->prompt_tokens)
    return;
  struct lls_event *event = lls_outbox_add(in->outbox);
  event->kind = LLS_EVENT_PROGRESS;
  event->request = v->id;
  event->owner = live->owner;
  event->shared_tokens = live->prefix_tokens;
  event->computed_tokens = v->cached_tokens;
}

/* Counts the pooled rows of a request that draws no token; it ends with its prompt. */
static void note_pooled(struct lls_live *live)
{
  struct lls_request *v = &live->view;
  if (v->cached_tokens > live->n_pooled)
    live->n_pooled = v->cached_tokens;
  if (v->cached_tokens == v->prompt_tokens)
    v->finish_reason = LLS_FINISH_LENGTH;
}

/* Books one sequence of the batch. If the request is done it ends later, after the
 * report. */
static void book(struct lls_instance *in, uint32_t i,
                 const struct lls_engine_result *result, int64_t now_ns)
{
  struct lls_policies *p = &in->policies;
  struct lls_live *live = in->batch.live[i];
  struct lls_request *v = &live->view;
  const struct lls_engine_sequence *s = &in->batch.sequences[i];
  const struct lls_sampled *token = result->sampled[i];
  uint32_t emitted = 0, drawn = 0;
  if (token != NULL && live->constraint.postponed)
    token = NULL;
  v->cached_tokens = live->context + live->run_tokens;
  /* the draw was postponed: the token it needs is computed again */
  v->cached_tokens -= token == NULL && result->sampled[i] != NULL;
  live->n_scored += s->n_scores;
  if (live->pooling != LLS_POOLING_NONE)
    note_pooled(live);
  bool hidden = lls_table_has_hidden(s->table);
  if (token != NULL)
    drawn = append_draws(in, i, token, now_ns, &emitted);
  uint32_t accepted = drawn > 1 ? drawn - 1 : 0;
  v->cached_tokens += accepted;
  LLS_CALL(p, cache, computed, v, v->cached_tokens);
  lls_block_events_note(in, live, live->context, v->cached_tokens);
  if (token == NULL)
    report_progress(in, live);
  if (accepted > 0)
    lls_engine_accept(in->engine, i, accepted);
  if (emitted > 0) {
    lls_lifecycle_set_state(in, live, LLS_DECODING);
    note_drafts(in, i, accepted);
  }
  /* a decode changes nothing but lengths, unless it went from hidden to KV form */
  if (!live->was_decoding || hidden)
    lls_lifecycle_refresh(in, live);
  in->batch.results[i] = (struct lls_step_result){.request = v,
                                                  .tokens = live->run_tokens,
                                                  .emitted = emitted,
                                                  .drafted = emitted > 0 ? s->drafts : 0,
                                                  .accepted = accepted};
  in->status.batch_tokens_sum += s->n_tokens;
  in->status.batch_sequences_sum++;
}

/* Keeps the step as a sample that a device profile can be compared with. Steps with
 * hidden form are left out, since measured profiles do not cover it. */
static void keep_sample(struct lls_instance *in, const struct lls_iteration_shape *shape,
                        int64_t duration_ns)
{
  struct lls_step_sample sample = {
      .ns = duration_ns, .chunks = shape->n_chunks, .decodes = shape->n_decodes};
  if (shape->hidden_tokens > 0 || shape->draft_tokens > 0 || in->batch.n == 0)
    return;
  for (uint32_t i = 0; i < in->batch.n; i++)
    sample.drawn += in->batch.sequences[i].sampling != NULL;
  for (uint32_t i = 0; i < shape->n_chunks; i++) {
    uint64_t tokens = shape->chunks[i].tokens;
    sample.chunk_tokens += tokens;
    sample.pairs += tokens * shape->chunks[i].context + tokens * (tokens + 1) / 2;
  }
  for (uint32_t i = 0; i < shape->n_decodes; i++)
    sample.cached += shape->decode_context[i];
  lls_step_samples_add(in->samples, &sample);
}

static void observe_cost(struct lls_instance *in, int64_t duration_ns)
{
  struct lls_step_batch *b = &in->batch;
  uint32_t n_chunks = 0, n_decodes = 0;
  uint64_t hidden_tokens = 0, draft_tokens = 0;
  for (uint32_t i = 0; i < b->n; i++) {
    const struct lls_engine_sequence *s = &b->sequences[i];
    if (lls_table_has_hidden(s->table))
      hidden_tokens += s->context;
    draft_tokens += s->drafts;
    if (s->n_tokens - s->drafts == 1 && s->context > 0)
      b->decode_context[n_decodes++] = s->context;
    else
      b->chunks[n_chunks++] = (struct lls_chunk_shape){.tokens = s->n_tokens - s->drafts,
                                                       .context = s->context};
  }
  struct lls_iteration_shape shape = {
      .size = sizeof shape,
      .n_chunks = n_chunks,
      .n_decodes = n_decodes,
      .chunks = b->chunks,
      .decode_context = b->decode_context,
      .hidden_tokens = hidden_tokens,
      .draft_tokens = draft_tokens,
  };
  if (!b->swaps) { /* a step that waits for the host would blur the fit */
    lls_cost_model_observe(in->cost, &shape, duration_ns);
    keep_sample(in, &shape, duration_ns);
  }
  in->status.estimates = lls_cost_model_accuracy(in->cost);
}

static void report(struct lls_instance *in, int64_t started_ns, int64_t ended_ns)
{
  struct lls_policies *p = &in->policies;
  if (p->scheduler_off || !LLS_HAS(p, scheduler, on_step))
    return;
  struct lls_step_report r = {
      .size = sizeof r,
      .instance = in->info.index,
      .step = in->step,
      .started_ns = started_ns,
      .ended_ns = ended_ns,
      .n_results = in->batch.n,
      .results =
          lls_plan_memory_results(&in->plan_memory, in->batch.results, in->batch.n),
  };
  LLS_CALL(p, scheduler, on_step, &r);
}

int lls_instance_commit(struct lls_instance *in, const struct lls_engine_result *result,
                        int64_t started_ns)
{
  int64_t now_ns = lls_instance_now(in);
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open && in->batch.n <= in->caps.max_sequences);
  lls_disk_tier_keep(in);
  for (uint32_t i = 0; i < in->batch.n; i++)
    book(in, i, result, now_ns);
  int64_t settled_ns = lls_engine_settle(in->engine, &in->health.failure);
  int64_t duration_ns = result->duration_ns + (settled_ns > 0 ? settled_ns : 0);
  observe_cost(in, duration_ns);
  report(in, started_ns, now_ns);
  for (uint32_t i = 0; i < in->batch.n; i++) {
    struct lls_live *live = in->batch.live[i];
    if (live->view.finish_reason != LLS_FINISH_NONE)
      lls_lifecycle_finish(in, live, live->view.finish_reason);
  }
  in->status.step_ns_sum += lls_instance_now(in) - started_ns;
  in->status.device_ns_sum += duration_ns;
  in->masks.device_ns = duration_ns;
  return settled_ns < 0 ? (int)settled_ns : 0;
}
