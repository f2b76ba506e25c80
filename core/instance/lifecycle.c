/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request on the step thread: it arrives, changes state, ends. Only here
 * an end is reported to lists, cache manager, scheduler and client, so that a request
 * ends exactly once.
 */
#include "core/instance/lifecycle.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/base/least.h"
#include "core/draft/draft_model.h"
#include "core/instance/cache_answers.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"

static struct lls_request_list *list_of(struct lls_instance *in, uint32_t state)
{
  switch (state) {
  case LLS_WAITING:
    return &in->waiting;
  case LLS_PREFILLING:
  case LLS_DECODING:
    return &in->running;
  case LLS_PREEMPTED:
    return &in->preempted;
  case LLS_MOVING:
    return &in->moving;
  default:
    return NULL;
  }
}

static uint32_t phase_of(const struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  switch (v->state) {
  case LLS_PREFILLING:
    return LLS_PHASE_PREFILL;
  case LLS_DECODING:
    return LLS_PHASE_DECODE;
  case LLS_MOVING:
    return LLS_PHASE_MOVING;
  case LLS_PREEMPTED:
    return live->placed == LLS_PLACED_PREEMPTED || v->residency == LLS_RESIDENT_HOST
               ? LLS_PHASE_SWAPPED
               : LLS_PHASE_PAUSED;
  default:
    return v->preemptions > 0 ? LLS_PHASE_PAUSED : LLS_PHASE_QUEUED;
  }
}

void lls_lifecycle_set_state(struct lls_instance *in, struct lls_live *live,
                             uint32_t state)
{
  struct lls_request_list *from = list_of(in, live->view.state), *to = list_of(in, state);
  LLS_ON_STEP(in);
  if (live->view.state == state)
    return;
  live->view.state = state;
  if (state != LLS_FINISHED)
    lls_life_note(&live->life, phase_of(live), lls_instance_now(in));
  if (from == to)
    return;
  if (from != NULL)
    lls_request_list_remove(from, &live->view);
  if (to != NULL)
    lls_request_list_insert(to, &live->view);
}

void lls_lifecycle_refresh(struct lls_instance *in, struct lls_live *live)
{
  struct lls_cache_info info;
  LLS_ON_STEP(in);
  if (lls_cache_info(in, &live->view, &info) < 0)
    return;
  live->view.residency = info.residency;
  live->view.form = info.form;
  live->view.missing_tokens =
      lls_least_u32(info.missing_tokens, live->view.cached_tokens);
  live->view.shared_tokens = info.shared_tokens;
}

void lls_lifecycle_refuse(struct lls_instance *in, struct lls_live *live,
                          uint32_t refusal)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  in->status.items_refused++;
  if (LLS_SCHEDULER_HAS(p, on_refused))
    LLS_CALL(p, scheduler, on_refused, &live->view, refusal);
}

static struct lls_prompt prompt_of(const struct lls_live *live)
{
  return (struct lls_prompt){
      .size = sizeof(struct lls_prompt),
      .n_tokens = live->view.prompt_tokens,
      .max_new_tokens = live->view.max_new_tokens,
      .request_class = live->view.request_class,
      .tokens = live->tokens,
      .text = live->text,
      .text_bytes = live->text_bytes,
      .label = live->label,
      .id = live->view.id,
      .tenant = live->view.tenant,
      .priority = live->view.priority,
  };
}

int lls_lifecycle_take_prediction(struct lls_instance *in, struct lls_live *live,
                                  const struct lls_prediction *given)
{
  struct lls_prediction p = *given;
  uint32_t most = in->caps.max_context;
  LLS_ON_STEP(in);
  bool good = p.source <= LLS_PREDICTED_ORACLE && p.confidence >= 0 &&
              p.confidence <= 1 && p.low <= p.high && p.made_ns >= LLS_NEVER;
  if (!good) {
    lls_policy_breach(in->policies.predictor.host,
                      "prediction for request %llu refused: length %u, low %u, high %u, "
                      "confidence %g, source %u, made_ns %lld",
                      (unsigned long long)live->view.id, p.length, p.low, p.high,
                      (double)p.confidence, p.source, (long long)p.made_ns);
    return -EPROTO;
  }
  p.length = lls_least_u32(p.length, most);
  p.low = lls_least_u32(p.low, most);
  p.high = lls_least_u32(p.high, most);
  live->view.prediction = p;
  return 0;
}

void lls_lifecycle_predict(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  struct lls_prompt prompt = prompt_of(live);
  struct lls_prediction prediction = {.made_ns = LLS_NEVER};
  if (live->pooling != LLS_POOLING_NONE)
    return; /* a pooled request generates no tokens */
  int rc = LLS_CALL(p, predictor, predict, live->view.id, &prompt, &prediction);
  if (rc == 0 || rc == -EINPROGRESS) /* the latter: preliminary, if any */
    lls_lifecycle_take_prediction(in, live, &prediction);
}

static void count_error(struct lls_instance *in, const struct lls_request *v)
{
  uint32_t length = v->prediction.length, actual = v->generated_tokens;
  if (v->prediction.source == LLS_PREDICTED_NOT)
    return;
  in->status.predicted++;
  in->status.prediction_error += length > actual ? length - actual : actual - length;
}

void lls_lifecycle_tell_predictor(struct lls_instance *in, const struct lls_live *live,
                                  uint32_t reason)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  struct lls_prompt prompt = prompt_of(live);
  uint32_t length = live->view.generated_tokens;
  bool by_itself = reason == LLS_FINISH_STOP || reason == LLS_FINISH_LENGTH;
  if (live->pooling != LLS_POOLING_NONE)
    return;
  if (by_itself)
    count_error(in, &live->view);
  if (by_itself && LLS_HAS(p, predictor, observe))
    LLS_CALL(p, predictor, observe, &prompt, length);
  if (!by_itself && LLS_HAS(p, predictor, on_end))
    LLS_CALL(p, predictor, on_end, &prompt, length, reason);
}

void lls_lifecycle_tell_drafter(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  live->drafted_length = 0;
  if (live->pooling != LLS_POOLING_NONE || live->drafter_knows)
    return;
  live->drafter_knows = true;
  if (LLS_HAS(p, drafter, on_arrival))
    LLS_CALL(p, drafter, on_arrival, &live->view);
}

void lls_lifecycle_leave_drafter(struct lls_instance *in, struct lls_live *live,
                                 uint32_t reason)
{
  struct lls_policies *p = &in->policies;
  LLS_ON_STEP(in);
  if (live->drafter_knows && LLS_HAS(p, drafter, on_finish))
    LLS_CALL(p, drafter, on_finish, &live->view, reason);
  live->drafter_knows = false;
  live->ask = NULL;
  if (in->drafting.model != NULL)
    lls_draft_model_forget(in->drafting.model, live->view.slot);
}

void lls_lifecycle_log_refusal(const struct lls_instance *in, const struct lls_live *live,
                               int rc)
{
  const struct lls_policy_host *host = in->policies.cache.host;
  LLS_ON_STEP(in);
  const struct lls_log_field fields[] = {
      {.name = "outcome", .text = "refused"},
      {.name = "why", .text = lls_error_text(&host->failure, rc)},
  };
  lls_log_request(in->log, LLS_LOG_WARNING, host->name, live->label, fields, 2);
}

int lls_lifecycle_admit(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  int rc = live->admitted ? 0 : LLS_CALL(&in->policies, cache, admit, &live->view);
  live->admitted = rc == 0;
  return rc;
}

/* Tells the policies of a request that is here now. Counts nothing: see the callers. */
static void enter(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  LLS_CHECK(in->table->by_slot[live->view.slot] == NULL);
  in->table->by_slot[live->view.slot] = live;
  live->view.instance = in->info.index;
  lls_request_list_insert(&in->waiting, &live->view);
  lls_life_note(&live->life, LLS_PHASE_QUEUED, live->view.arrival_ns);
  lls_session_enter(in, live);
  lls_lifecycle_predict(in, live);
  if (in->observer.on_arrival != NULL)
    in->observer.on_arrival(in->observer.context, &live->view);
  int rc = lls_lifecycle_admit(in, live);
  live->admitted = false; /* it may arrive again, elsewhere */
  if (rc < 0) {
    lls_lifecycle_log_refusal(in, live, rc);
    lls_lifecycle_finish(in, live, LLS_FINISH_CAPACITY);
    return;
  }
  live->announced = true;
  lls_lifecycle_tell_drafter(in, live);
  if (LLS_SCHEDULER_HAS(p, on_arrival))
    LLS_CALL(p, scheduler, on_arrival, &live->view);
}

/* Main compares the count with what it has posted (lls_placing). */
static void count_arrival(struct lls_instance *in, const struct lls_live *live)
{
  in->status.arrived++;
  in->status.prompt_tokens += live->view.prompt_tokens;
}

void lls_lifecycle_arrive(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  count_arrival(in, live);
  enter(in, live);
}

void lls_lifecycle_compute_again(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  LLS_ON_STEP(in);
  v->cached_tokens = v->missing_tokens = v->shared_tokens = 0;
  v->residency = LLS_RESIDENT_NONE;
  v->form = LLS_FORM_NONE;
  v->state = LLS_WAITING;
  v->queue_enter_ns = lls_instance_now(in);
  v->forced_tokens = 0;
  v->preemptions++; /* counted as preempted by recompute */
  enter(in, live);
  if (v->state != LLS_FINISHED && atomic_load(&in->cancelled[v->slot]) == v->id)
    lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
}

void lls_lifecycle_arrive_again(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  count_arrival(in, live);
  lls_lifecycle_compute_again(in, live);
}

static void announce_end(struct lls_instance *in, struct lls_live *live, uint32_t reason)
{
  struct lls_policies *p = &in->policies;
  if (!live->announced)
    return; /* refused by the cache manager: no policy knows it */
  if (!p->scheduler_off) {
    if (LLS_HAS(p, scheduler, on_finish))
      LLS_CALL(p, scheduler, on_finish, &live->view, reason);
  }
  lls_cache_release(in, &live->view, LLS_KEEP_PREFIX);
}

/* Ends an offered request: the instance that has its blocks frees them. */
static void end_offer(struct lls_instance *in, struct lls_live *live)
{
  struct lls_migration *h = &in->migration;
  if (live->move.fetching)
    in->drop_fetch(in->fetches, live->move.ticket);
  lls_cache_release(in, &live->view, 0);
  lls_request_list_remove(live->move.fetching ? &h->fetching : &h->incoming, &live->view);
  live->move.incoming = live->move.fetching = false;
  live->view.state = LLS_FINISHED;
  lls_inbox_settle(in->peers[live->move.source]->inbox, live->view.slot,
                   lls_instance_now(in));
}

void lls_lifecycle_finish(struct lls_instance *in, struct lls_live *live, uint32_t reason)
{
  struct lls_request *v = &live->view;
  LLS_ON_STEP(in);
  LLS_CHECK(v->state != LLS_FINISHED && in->table->by_slot[v->slot] == live);
  LLS_CHECK(live->placed == LLS_PLACED_NOT);
  if (live->move.incoming)
    end_offer(in, live);
  lls_lifecycle_set_state(in, live, LLS_FINISHED);
  v->finish_reason = reason;
  announce_end(in, live, reason);
  lls_lifecycle_leave_drafter(in, live, reason);
  lls_lifecycle_tell_predictor(in, live, reason);
  if (in->observer.on_finish != NULL)
    in->observer.on_finish(in->observer.context, v);
  in->table->by_slot[v->slot] = NULL;
  in->disk_ahead -= live->disk_ahead;
  in->status.finished[reason]++;
  in->policies.scheduler.host->refusals += reason == LLS_FINISH_REJECTED;
  in->policies.cache.host->refusals += reason == LLS_FINISH_CAPACITY;

  struct lls_event *event = lls_outbox_add(in->outbox);
  *event = (struct lls_event){
      .kind = LLS_EVENT_FINISHED,
      .reason = reason,
      .request = v->id,
      .owner = live->owner,
      .prompt_tokens = v->prompt_tokens,
      .generated_tokens = v->generated_tokens,
      .shared_tokens = live->prefix_tokens,
      .keeps_prefix = live->finds_prefixes,
      .preemptions = v->preemptions,
      .drafted_tokens = live->drafted,
      .accepted_tokens = live->accepted,
      .arrival_ns = v->arrival_ns,
      .first_scheduled_ns = v->first_scheduled_ns,
      .first_token_ns = live->first_token_ns,
      .finished_ns = lls_instance_now(in),
      .prediction = v->prediction,
      .lost = in->health.failed && in->info.index > 0, /* process 0 may continue it */
      .no_number = live->no_number,
      .grammar_error = live->constraint.failed,
      .pooled = reason == LLS_FINISH_LENGTH ? live->pooled : NULL,
      .life = &live->life,
      .live = live, /* main, its creator, frees it */
  };
}

void lls_lifecycle_finish_all(struct lls_instance *in, uint32_t reason)
{
  struct lls_request_list *lists[] = {
      &in->running, &in->preempted,          &in->moving,
      &in->waiting, &in->migration.incoming, &in->migration.fetching};
  LLS_ON_STEP(in);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    while (lists[i]->n > 0)
      lls_lifecycle_finish(in, lls_live_of(lists[i]->items[lists[i]->n - 1]), reason);
}
