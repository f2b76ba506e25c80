/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See draft_asks.h. The passes of the draft model are work of a device, unlike the calls
 * of the drafter: with draft_budget = auto they may take as long as the step before did,
 * since a longer run would hardly ever pay, and the drafter asks for less where less does
 * (`wants`). So a slow draft model at most doubles the time between two tokens.
 */
#include "core/step/draft_asks.h"

#include <llmserve/drafter.h>

#include "core/base/least.h"
#include "core/cost/cost.h"
#include "core/draft/draft_model.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"
#include "core/step/drafts.h"

/* Calls of the drafter between two looks at the clock: `wants` may read prompts. */
#define LOOK 8

uint32_t lls_draft_asks_room(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  LLS_ON_STEP(in);
  if (v->state != LLS_DECODING || !live->drafter_knows ||
      live->drafted_length == lls_request_length(v))
    return 0;
  return lls_drafts_room(in, live);
}

static int64_t budget_of(const struct lls_instance *in)
{
  int64_t budget_ns = in->limits.draft_budget;
  if (budget_ns != LLS_NEVER)
    return budget_ns;
  return in->masks.device_ns > 0 ? in->masks.device_ns : 1;
}

/* Returns the estimated time of a step of these decodes, each with that number of
 * guesses. */
static int64_t step_of(const struct lls_instance *in, uint32_t n, uint32_t guesses)
{
  const struct lls_cost *cost = lls_cost_model_service(in->cost);
  const struct lls_iteration_shape shape = {.size = sizeof shape,
                                            .n_decodes = n,
                                            .decode_context = in->batch.decode_context,
                                            .draft_tokens = (uint64_t)n * guesses};
  return cost->iteration_ns(cost->context, &shape);
}

/* Fills what is the same for all requests. */
static void set_work(struct lls_instance *in, struct lls_draft_work *work)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < in->running.n && n < in->caps.max_sequences; i++)
    if (in->running.items[i]->state == LLS_DECODING)
      in->batch.decode_context[n++] = in->running.items[i]->cached_tokens;
  int64_t plain_ns = n > 0 ? step_of(in, n, 0) : LLS_NEVER;
  int64_t more_ns = n > 0 ? step_of(in, n, 1) : LLS_NEVER;
  bool known = plain_ns != LLS_NEVER && more_ns != LLS_NEVER;
  work->step_ns = known ? plain_ns : in->masks.device_ns;
  work->verify_ns = known ? lls_most_i64(more_ns - plain_ns, 0) : 0;
  work->pass_ns = lls_draft_model_pass_ns(in->drafting.model, n > 0 ? n : 1);
}

/* Returns the time until the draft model has computed the request's text. */
static int64_t behind_of(struct lls_instance *in, const struct lls_live *live)
{
  struct lls_draft_model *m = in->drafting.model;
  uint32_t length = lls_request_length(&live->view);
  uint32_t behind =
      lls_draft_model_behind(m, live->view.slot, live->view.id, live->tokens, length);
  int64_t more_ns = lls_draft_model_pass_ns(m, behind) - lls_draft_model_pass_ns(m, 1);
  return behind > LLS_MAX_DRAFTS + 1 && more_ns > 0 ? more_ns : 0;
}

/* How the request's next token is drawn, without what only it can have: its masks, and
 * lists of tokens that end it too early. */
static struct lls_sampling draw_of(const struct lls_live *live)
{
  const struct lls_sampling *own = &live->sampling;
  uint32_t length = lls_request_length(&live->view), last = own->penalty_last_n;
  uint32_t first = last > 0 && last < length ? length - last : 0;
  uint32_t n_prompt = live->view.prompt_tokens;
  return (struct lls_sampling){
      .temperature = own->temperature,
      .top_p = own->top_p,
      .min_p = own->min_p,
      .top_k = own->top_k,
      .repetition_penalty = own->repetition_penalty,
      .presence_penalty = own->presence_penalty,
      .frequency_penalty = own->frequency_penalty,
      .penalty_last_n = own->penalty_last_n,
      .seed = own->seed,
      .index = live->view.generated_tokens,
      .history = live->tokens + first,
      .n_history = length - first,
      .n_prompt = n_prompt > first ? n_prompt - first : 0,
      .bias = own->bias,
      .n_bias = live->n_bias,
  };
}

/* Says whose text the draft model continues. */
static void name(struct lls_instance *in, struct lls_live *live,
                 struct lls_draft_ask *out)
{
  *out = (struct lls_draft_ask){
      .request = live->view.id,
      .slot = live->view.slot,
      .tokens = live->tokens,
      .n_tokens = lls_request_length(&live->view),
      .vocabulary = lls_engine_config(in->engine)->vocab,
  };
}

/* Asks the drafter about a request. Returns true if it wants candidates. */
static bool ask(struct lls_instance *in, struct lls_live *live,
                struct lls_draft_work *work, struct lls_draft_ask *out)
{
  struct lls_policies *p = &in->policies;
  work->max = lls_least_u32(lls_draft_asks_room(in, live), LLS_MAX_DRAFTS);
  if (work->max == 0)
    return false;
  work->behind_ns = behind_of(in, live);
  uint32_t wanted = LLS_CALL(p, drafter, wants, &live->view, work);
  if (wanted > work->max)
    lls_policy_breach(p->drafter.host, "wants for request %llu returns %u, of %u tokens",
                      (unsigned long long)live->view.id, wanted, work->max);
  name(in, live, out);
  out->max = lls_least_u32(wanted, work->max);
  out->sampling = draw_of(live);
  return wanted > 0;
}

/* Asks about the running requests, until end_ns. Returns how many want candidates. */
static uint32_t ask_all(struct lls_instance *in, struct lls_draft_work *work,
                        int64_t end_ns)
{
  struct lls_drafting *d = &in->drafting;
  uint32_t n = 0, asked = 0, all = in->running.n;
  bool late = false;
  while (asked < all && !late) {
    struct lls_live *live = lls_live_of(in->running.items[(d->model_turn + asked) % all]);
    if (ask(in, live, work, &d->asks[n]))
      live->ask = &d->asks[n++];
    asked++;
    late = asked % LOOK == 0 && lls_instance_now(in) >= end_ns;
  }
  d->model_turn += late ? asked : 1; /* where not all have room, others are the first */
  return n;
}

/* Finds the rows that the last step has computed of a running request. */
static bool find_rows(const struct lls_instance *in, const struct lls_live *live,
                      struct lls_draft_read *out)
{
  const struct lls_step_batch *b = &in->batch;
  uint32_t row = live->row, cached = live->view.cached_tokens;
  if (row >= b->n || b->live[row] != live || live->pooling != LLS_POOLING_NONE ||
      cached <= b->sequences[row].context)
    return false;
  *out = (struct lls_draft_read){
      .hidden = lls_engine_hidden_rows(in->engine, row),
      .context = b->sequences[row].context,
      .n_rows =
          lls_least_u32(cached - b->sequences[row].context, b->sequences[row].n_tokens),
  };
  return out->hidden != NULL;
}

/* Gives heads the rows of the last step, of all requests whether they want guesses or
 * not. The first n asks are taken. Returns the number of reads. */
static uint32_t collect(struct lls_instance *in, uint32_t n)
{
  struct lls_drafting *d = &in->drafting;
  uint32_t reads = 0;
  for (uint32_t i = 0; i < in->running.n && reads < in->caps.max_sequences; i++) {
    struct lls_live *live = lls_live_of(in->running.items[i]);
    struct lls_draft_read *r = &d->reads[reads];
    if (!find_rows(in, live, r))
      continue;
    r->ask = live->ask != NULL ? &d->asks[live->ask - d->asks] : &d->asks[n++];
    if (live->ask == NULL)
      name(in, live, r->ask);
    reads++;
  }
  return reads;
}

/* Returns the part of its time that counts against no budget. */
static int64_t run_model(struct lls_instance *in, uint32_t n, int64_t left_ns)
{
  struct lls_drafting *d = &in->drafting;
  int64_t read_ns = 0;
  if (lls_draft_model_is_heads(d->model))
    read_ns = lls_draft_heads_run(d->model, d->reads, collect(in, n), left_ns);
  else
    lls_draft_model_run(d->model, d->asks, n, left_ns);
  const char *failure = lls_draft_model_failure(d->model);
  if (failure != NULL)
    lls_log(in->log, LLS_LOG_ERROR, "engine", "the draft model stops: %s", failure);
  return read_ns;
}

static bool has_model(const struct lls_instance *in)
{
  return in->drafting.model != NULL && LLS_HAS(&in->policies, drafter, wants);
}

bool lls_draft_asks_reads(const struct lls_instance *in)
{
  LLS_ON_STEP(in);
  return has_model(in) && lls_draft_model_is_heads(in->drafting.model);
}

int64_t lls_draft_asks_run(struct lls_instance *in, bool may_ask)
{
  struct lls_drafting *d = &in->drafting;
  struct lls_draft_work work = {.size = sizeof work};
  int64_t budget_ns = budget_of(in), began_ns = lls_instance_now(in), left_ns = 0;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->running.n; i++)
    lls_live_of(in->running.items[i])->ask = NULL;
  if (!has_model(in))
    return 0;
  may_ask = may_ask && lls_draft_debt_allows(&d->model_debt_ns, budget_ns);
  if (may_ask) {
    set_work(in, &work);
    left_ns = budget_ns > 0 ? budget_ns - d->model_debt_ns : 0;
    n = ask_all(in, &work, left_ns > 0 ? began_ns + left_ns : LLS_NEVER);
  } else if (!lls_draft_model_is_heads(d->model)) {
    return 0;
  }
  int64_t read_ns = run_model(in, n, left_ns);
  int64_t took_ns = lls_instance_now(in) - began_ns;
  if (may_ask)
    lls_draft_debt_pay(&d->model_debt_ns, budget_ns, took_ns - read_ns);
  return took_ns;
}
