/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets a plan from the scheduler and checks it. The scheduler reads and writes copies
 * (plan_memory.h); in->plan belongs to the core alone. A plan is accepted or refused as
 * a whole. A refused plan costs a strike, and its step is planned by the built-in order,
 * so that requests still progress. After limits.strikes the scheduler is not called any
 * more.
 */
#include "core/step/phases.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/cluster/offered.h"
#include "core/cluster/peer_load.h"
#include "core/engine/batch.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"
#include "core/obs/log.h"
#include "core/policy/fallback.h"
#include "core/policy/plan_memory.h"

/* Counts a strike against the scheduler, and switches it off after too many. */
static __attribute__((format(printf, 2, 3))) void strike(struct lls_instance *in,
                                                         const char *format, ...)
{
  char why[LLS_ERROR_MAX / 2];
  va_list args;
  LLS_ON_STEP(in);
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  struct lls_policies *p = &in->policies;
  in->strikes++;
  p->scheduler.host->breaches++;
  lls_log(in->log, LLS_LOG_PLUGIN_MISBEHAVING, p->scheduler.host->name,
          "%s (strike %u of %lld)", why, in->strikes, (long long)in->limits.strikes);
  if (in->strikes < in->limits.strikes || p->scheduler_off)
    return;
  p->scheduler_off = true;
  in->status.fallen_back = true;
  snprintf(in->status.fallback_reason, sizeof in->status.fallback_reason,
           "%s was switched off after %u bad or late plans, the last: %s",
           p->scheduler.host->name, in->strikes, why);
  lls_log(
      in->log, LLS_LOG_ERROR, p->scheduler.host->name,
      "switched off after %u strikes: requests run in the built-in order until a reload",
      in->strikes);
}

static void empty_plan(struct lls_plan *plan)
{
  plan->n_items = plan->overflow = 0;
  plan->idle_until_ns = LLS_NEVER;
}

static void fill_view(const struct lls_instance *in, struct lls_step_view *view)
{
  *view = (struct lls_step_view){
      .size = sizeof *view,
      .instance = in->info.index,
      .role = in->info.role,
      .preempt_mode = in->preempt_mode,
      .step = in->step,
      .now_ns = lls_instance_now(in),
      .n_waiting = in->waiting.n,
      .n_running = in->running.n,
      .n_preempted = in->preempted.n,
      .n_moving = in->moving.n,
      .n_offered = in->migration.incoming.n,
      .n_leaving = in->migration.n_offered,
      .waiting = in->waiting.items,
      .running = in->running.items,
      .preempted = in->preempted.items,
      .moving = in->moving.items,
      .offered = in->migration.incoming.items,
      .loads = in->loads != NULL ? in->loads->list : NULL,
      .max_tokens = in->caps.max_step_tokens,
      .max_sequences = in->caps.max_sequences,
      .cache = &in->service,
      .n_sessions = in->sessions.n_idle,
      .sessions = in->sessions.idle,
      .n_arriving = in->reading.n,
      .min_drafts = (uint32_t)in->limits.min_drafts,
      .arriving = in->reading.items,
  };
}

/* Sums over the items seen so far. */
struct tally {
  uint64_t tokens;
  uint32_t sequences;
  const char *why; /* reason why the plan is bad, or NULL */
  struct lls_live *culprit;
};

static bool bad(struct tally *t, struct lls_live *live, const char *why)
{
  t->why = why;
  t->culprit = live;
  return false;
}

/* Checks the guesses that a run has verified. */
static bool check_drafts(const struct lls_instance *in, const struct lls_plan_item *item,
                         struct lls_live *live, struct tally *t)
{
  const struct lls_request *v = &live->view;
  if (item->drafts > in->caps.max_drafts)
    return bad(t, live,
               in->caps.max_drafts == 0
                   ? "has drafts verified, unsupported by this engine"
                   : "has more drafts verified than the engine's max_drafts");
  if (item->drafts > v->drafted_tokens)
    return bad(t, live, "has more drafts verified than a request has");
  if (item->drafts > 0 && item->tokens < lls_request_pending(v))
    return bad(t, live, "has drafts verified behind a part of a request's tokens");
  return true;
}

static bool check_run(const struct lls_instance *in, const struct lls_plan_item *item,
                      struct lls_live *live, struct tally *t)
{
  if (live->view.state == LLS_MOVING)
    return bad(t, live, "runs a request that is being moved");
  if (item->tokens == 0 || item->tokens > lls_request_pending(&live->view))
    return bad(t, live, "runs more tokens than a request has left, or none");
  if (item->tokens < lls_request_pending(&live->view) && !in->caps.chunked_prefill)
    return bad(t, live, "runs a piece of a prompt, unsupported by this engine");
  if (!check_drafts(in, item, live, t))
    return false;
  if (item->form > LLS_FORM_HIDDEN)
    return bad(t, live, "names an unknown cache form");
  if (item->form != LLS_FORM_NONE && (in->caps.forms & (1u << item->form)) == 0)
    return bad(t, live, "names a cache form that is unsupported by this engine");
  if (live->placed == LLS_PLACED_PREEMPTED)
    return bad(t, live, "runs a request it has preempted");
  uint64_t tokens = item->tokens + (uint64_t)item->drafts;
  if (live->placed == LLS_PLACED_RESERVED && tokens > live->asked_tokens)
    return bad(t, live, "runs more tokens than it reserved memory for");
  t->tokens += tokens;
  t->sequences++;
  return true;
}

static bool check_preempt(const struct lls_instance *in, const struct lls_plan_item *item,
                          struct lls_live *live, struct tally *t)
{
  if (item->mode < LLS_PREEMPT_RECOMPUTE || item->mode > LLS_PREEMPT_DEFER)
    return bad(t, live, "names an unknown way to preempt");
  if (item->mode != LLS_PREEMPT_DEFER &&
      (in->caps.preempt_modes & (1u << item->mode)) == 0)
    return bad(t, live, "preempts in a way that is unsupported by this engine");
  if (live->placed == LLS_PLACED_RESERVED)
    return bad(t, live, "preempts a request it has reserved memory for");
  if (live->placed == LLS_PLACED_PREEMPTED && live->preempt_mode != item->mode)
    return bad(t, live, "preempts a request in another way than it already did");
  return true;
}

/* Checks a transfer of an offered request: the instance that has its blocks moves
 * them. */
static bool check_shift(const struct lls_plan_item *item, struct lls_live *live,
                        struct tally *t)
{
  bool to_host = item->kind == LLS_PLAN_OFFLOAD;
  uint32_t from = to_host ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_HOST;
  return live->view.residency == from ||
         bad(t, live,
             to_host ? "offloads an offer whose blocks are not on its instance's device"
                     : "uploads an offer whose blocks are not on its instance's host");
}

static bool check_transfer(const struct lls_instance *in,
                           const struct lls_plan_item *item, struct lls_live *live,
                           struct tally *t)
{
  bool to_host = item->kind == LLS_PLAN_OFFLOAD;
  uint32_t state = live->view.state;
  if (!in->caps.async_transfers)
    return bad(t, live,
               "asks for a transfer: unsupported by this engine or cache manager");
  if (live->move.incoming)
    return check_shift(item, live, t);
  if (to_host ? state != LLS_DECODING && state != LLS_PREFILLING : state != LLS_PREEMPTED)
    return bad(t, live,
               to_host ? "offloads a request that is not on the device"
                       : "uploads a request that is not on the host");
  return live->placed == LLS_PLACED_NOT || bad(t, live, "moves a request it has placed");
}

/* Checks an item that hands a request to another instance, or takes one over. */
static bool check_migrate(const struct lls_instance *in, const struct lls_plan_item *item,
                          struct lls_live *live, struct tally *t)
{
  uint32_t state = live->view.state;
  if (in->n_peers < 2 || item->target >= in->n_peers)
    return bad(t, live, "hands a request over to an instance that is not there");
  if (item->target == in->info.index)
    return live->move.incoming || bad(t, live, "takes over a request that is here");
  if ((state != LLS_DECODING && state != LLS_PREFILLING) || live->view.missing_tokens > 0)
    return bad(t, live, "hands over a request that is not on the device");
  return live->placed == LLS_PLACED_NOT ||
         bad(t, live, "hands over a request that it has placed");
}

static bool check_item(struct lls_instance *in, const struct lls_plan_item *item,
                       struct tally *t)
{
  if (item->kind == LLS_PLAN_ENCODE)
    return bad(t, NULL, "has an item that this version of llmserve does not carry out");
  struct lls_live *live = lls_request_table_find(in->table, item->request);
  if (live == NULL)
    return bad(t, NULL, "names a request that is not alive");
  if (live->named_in_step == in->step + 1)
    return bad(t, live, "names a request twice");
  live->named_in_step = in->step + 1;
  if (live->move.fetching)
    return bad(t, live, "names a request that is on its way from another process");
  switch (item->kind) {
  case LLS_PLAN_RUN:
    return check_run(in, item, live, t);
  case LLS_PLAN_PREEMPT:
    return check_preempt(in, item, live, t);
  case LLS_PLAN_REJECT:
    if (item->reason != LLS_FINISH_REJECTED && item->reason != LLS_FINISH_CAPACITY)
      return bad(t, live, "rejects for a reason other than REJECTED or CAPACITY");
    return live->placed == LLS_PLACED_NOT ||
           bad(t, live, "rejects a request it has placed");
  case LLS_PLAN_OFFLOAD:
  case LLS_PLAN_UPLOAD:
    return check_transfer(in, item, live, t);
  case LLS_PLAN_MIGRATE:
    return check_migrate(in, item, live, t);
  default:
    return bad(t, live, "has an item of unknown kind");
  }
}

/* Everything the scheduler did through the cache service must be in the plan as well. */
static bool check_placed_are_named(const struct lls_instance *in, struct tally *t)
{
  for (uint32_t i = 0; i < in->transaction.n_done; i++) {
    struct lls_live *live = in->transaction.done[i].live;
    if (live->named_in_step != in->step + 1)
      return bad(t, live, "reserved or preempted a request that the plan doesn't name");
  }
  return true;
}

static bool check_kinds_of_placed(const struct lls_instance *in, struct tally *t)
{
  const struct lls_plan *plan = &in->plan;
  for (uint32_t i = 0; i < plan->n_items; i++) {
    struct lls_live *live = lls_request_table_find(in->table, plan->items[i].request);
    if (live->placed == LLS_PLACED_RESERVED && plan->items[i].kind != LLS_PLAN_RUN)
      return bad(t, live, "reserved memory for a request and does not run it");
    if (live->placed == LLS_PLACED_PREEMPTED && plan->items[i].kind != LLS_PLAN_PREEMPT)
      return bad(t, live, "preempted a request and the plan says otherwise");
  }
  return true;
}

/* Returns true if an empty plan has a reason: a transfer, a request on its way between
 * instances, or that the step is for sessions or copies alone. */
static bool may_idle(const struct lls_instance *in)
{
  return lls_instance_alive(in) == 0 || in->moving.n > 0 || in->migration.n_offered > 0 ||
         in->migration.fetching.n > 0;
}

/* Checks how long an empty plan idles, since it holds up all requests. */
static bool check_idle(const struct lls_instance *in, struct tally *t)
{
  static const int64_t longest_ns = 3600 * LLS_NS_PER_S;
  const struct lls_plan *plan = &in->plan;
  if (plan->n_items > 0 || may_idle(in) ||
      plan->idle_until_ns <= lls_time_after(lls_instance_now(in), longest_ns))
    return true;
  return bad(t, NULL, "idles for more than an hour with requests to run");
}

static bool check_plan(struct lls_instance *in, struct tally *t)
{
  const struct lls_plan *plan = &in->plan;
  if (!check_idle(in, t))
    return false;
  for (uint32_t i = 0; i < plan->n_items; i++)
    if (!check_item(in, &plan->items[i], t))
      return false;
  if (t->tokens > in->caps.max_step_tokens)
    return bad(t, NULL, "has more tokens than the engine's max_step_tokens");
  if (t->sequences > in->caps.max_sequences)
    return bad(t, NULL, "has more sequences than the engine's max_sequences");
  return check_placed_are_named(in, t) && check_kinds_of_placed(in, t);
}

static void refuse_plan(struct lls_instance *in, const struct tally *t)
{
  lls_transaction_rollback(in, 0);
  in->status.plans_refused++;
  if (t->culprit == NULL) {
    strike(in, "plan of step %llu refused: it %s", (unsigned long long)in->step, t->why);
    return;
  }
  strike(in, "plan of step %llu refused: it %s (request %llu %s)",
         (unsigned long long)in->step, t->why, (unsigned long long)t->culprit->view.id,
         t->culprit->label);
  lls_lifecycle_refuse(in, t->culprit, LLS_REFUSED_BAD_ITEM);
}

/* Returns true if in->plan is now the scheduler's and passed the checks. */
static bool ask_scheduler(struct lls_instance *in, const struct lls_step_view *view)
{
  struct lls_policies *p = &in->policies;
  struct lls_plan_memory *m = &in->plan_memory;
  lls_plan_memory_fill(m, view);
  int64_t started_ns = in->plan_clock(in->clock_context);
  int rc = LLS_CALL(p, scheduler, plan, m->view, m->plan);
  int64_t took_ns = in->plan_clock(in->clock_context) - started_ns;
  in->status.plan_ns_sum += took_ns;
  lls_histogram_observe(&in->status.plan_seconds, (double)took_ns / 1e9);
  if (in->limits.plan_budget > 0 && took_ns > in->limits.plan_budget) {
    in->status.plans_late++;
    strike(in, "plan took %lld us, the budget is %lld us", (long long)took_ns / 1000,
           (long long)in->limits.plan_budget / 1000);
  }
  struct tally tally = {0};
  if (rc < 0)
    tally.why = "returned an error instead of a plan";
  else
    tally.why = lls_plan_memory_take(m, &in->plan);
  if (tally.why == NULL)
    tally.why = lls_leases_take_items(in);
  if (tally.why == NULL && check_plan(in, &tally) &&
      (tally.why = lls_leases_check(in)) == NULL)
    return true;
  in->sessions.n_items = 0;
  refuse_plan(in, &tally);
  return false;
}

/* Counts plans that are empty although requests could run and no event will wake the
 * thread. Each 1,000 of them in a row are a strike. */
static void watch_empty_plans(struct lls_instance *in)
{
  bool excused = in->plan.idle_until_ns > lls_instance_now(in) || may_idle(in);
  if (in->plan.n_items > 0 || excused) {
    in->empty_plans = 0;
    return;
  }
  if (++in->empty_plans % 1000 == 0)
    strike(in, "%u empty plans in a row with %u requests to run", in->empty_plans,
           in->waiting.n + in->running.n + in->preempted.n);
}

void lls_instance_plan(struct lls_instance *in)
{
  struct lls_step_view view;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  lls_offered_refresh_views(in);
  lls_peer_loads_look(in);
  fill_view(in, &view);
  in->sessions.n_items = 0;
  bool planned = !in->policies.scheduler_off && ask_scheduler(in, &view);
  if (planned) {
    watch_empty_plans(in);
  } else {
    empty_plan(&in->plan);
    lls_fallback_plan(in, &view, &in->plan);
  }
  if (in->observer.on_plan != NULL)
    in->observer.on_plan(in->observer.context, &view, &in->plan, planned);
  in->idle_until_ns = in->plan.n_items == 0 ? in->plan.idle_until_ns : 0;
  in->sessions_ns = lls_instance_alive(in) == 0 ? in->plan.idle_until_ns : LLS_NEVER;
}
