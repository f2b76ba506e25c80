/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step: everything the daemon does per iteration, on the instance's own thread.
 *
 * Nothing here allocates, takes a contended lock, reads a file or logs above debug,
 * unless a plugin misbehaves or the engine fails.
 *
 * If the device computes asynchronously (in->overlap), work that the next step
 * does not need (counting, sending tokens) is put off until the device has that step.
 */
#include "core/step/step.h"

#include <errno.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/least.h"
#include "core/cluster/migrate.h"
#include "core/cluster/offered.h"
#include "core/cluster/peer_load.h"
#include "core/engine/batch.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/cache_answers.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"
#include "core/policy/policy_stats.h"
#include "core/record/snapshot.h"
#include "core/step/constraint.h"
#include "core/step/disk_tier.h"
#include "core/step/draft_asks.h"
#include "core/step/phases.h"

/* Some cancelled ids did not fit in the inbox: compares every request with the last id
 * cancelled in its slot. */
static void drain_all_cancels(struct lls_instance *in)
{
  for (uint32_t slot = 0; slot < in->table->slots; slot++) {
    struct lls_live *live = in->table->by_slot[slot];
    if (live != NULL && atomic_load(&in->cancelled[slot]) == live->view.id)
      lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
  }
}

static void drain_cancels(struct lls_instance *in)
{
  if (in->content.cancels_lost)
    drain_all_cancels(in);
  for (uint32_t i = 0; i < in->content.n_cancels; i++) {
    struct lls_live *live = lls_request_table_find(in->table, in->content.cancels[i]);
    if (live != NULL)
      lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
  }
}

static void drain_predictions(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  for (uint32_t i = 0; i < in->content.n_predictions; i++) {
    const struct lls_late_prediction *late = &in->content.predictions[i];
    struct lls_live *live = lls_request_table_find(in->table, late->request);
    if (live == NULL)
      continue;
    if (lls_lifecycle_take_prediction(in, live, &late->prediction) < 0)
      continue;
    if (LLS_SCHEDULER_HAS(p, on_prediction))
      LLS_CALL(p, scheduler, on_prediction, &live->view);
  }
}

/* Arrivals before cancels: a request may be cancelled before this thread sees it
 * arrive. */
void lls_instance_receive(struct lls_instance *in, int64_t now_ns)
{
  LLS_ON_STEP(in);
  lls_inbox_take(in->inbox, now_ns, &in->content);
  lls_migrate_settle(in);
  lls_migrate_fetched(in);
  for (struct lls_live *live = in->content.arrivals, *next; live != NULL; live = next) {
    next = live->next;
    if (live->move.mail == LLS_MAIL_ARRIVAL && !lls_disk_tier_hold(in, live))
      lls_lifecycle_arrive(in, live);
    else if (live->move.mail == LLS_MAIL_ARRIVAL)
      continue;
    else if (live->move.mail == LLS_MAIL_AGAIN)
      lls_lifecycle_arrive_again(in, live);
    else
      lls_migrate_receive(in, live);
  }
  lls_disk_tier_advance(in);
  if (in->content.end_all || in->content.clear != 0 || in->content.stop ||
      in->health.failed)
    lls_disk_tier_arrive_all(in);
  lls_offered_receive_shifts(in);
  lls_migrate_drop_broken(in);
  lls_session_take_notes(in);
  drain_cancels(in);
  drain_predictions(in);
  if (in->content.end_all)
    lls_lifecycle_finish_all(in, LLS_FINISH_ERROR);
  if (in->content.clear != 0) {
    lls_migrate_forget_all(in);
    in->health.clear = in->content.clear;
  }
  if (in->content.asked != NULL)
    lls_snapshot_take(in, in->content.asked);
}

static bool drain(struct lls_instance *in)
{
  lls_instance_receive(in, lls_instance_now(in));
  return !in->content.stop;
}

static void plan_and_place(struct lls_instance *in)
{
  lls_transaction_open(in);
  lls_instance_plan(in);
  lls_instance_place(in);
}

static uint64_t bytes_of(const struct lls_instance *in, const struct lls_copy *copies,
                         uint32_t n)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += lls_copied_bytes(pool, &copies[i]);
  return bytes;
}

/* Copies within the device do not count: the step needs them (full blocks become int8
 * behind every prompt). */
static bool any_swaps(const struct lls_copy *copies, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (lls_copy_way(&copies[i]) != LLS_COPY_DEVICE_TO_DEVICE)
      return true;
  return false;
}

/* Returns how many tokens the view counts as cached although the manager has freed their
 * blocks. */
static uint32_t given_back(const struct lls_instance *in, const struct lls_request *v)
{
  bool gives_back = lls_cache_keeps(&in->policies.cache.module->cache, LLS_GROUP_WINDOW);
  return gives_back ? lls_group_begin(in->caps.groups[0], v->cached_tokens) : 0;
}

/* Walks the requests that hold cache: some hundred, against a step of milliseconds. */
static void count_cached(const struct lls_instance *in,
                         const struct lls_request_list *list, struct lls_loop_status *s)
{
  for (uint32_t i = 0; i < list->n; i++) {
    const struct lls_request *v = list->items[i];
    uint32_t form = v->form <= LLS_FORM_HIDDEN ? v->form : LLS_FORM_NONE;
    uint32_t gone = given_back(in, v), missing = v->missing_tokens;
    uint32_t on_host = missing > gone ? missing - gone : 0;
    s->cached_on_device[form] += v->cached_tokens - gone - on_host;
    s->cached_on_host[form] += on_host;
  }
}

/* Adds the tokens that these requests have to compute, for the choice of an instance. */
static void count_pending(const struct lls_request_list *list, struct lls_loop_status *s)
{
  for (uint32_t i = 0; i < list->n; i++)
    s->pending_tokens += lls_request_pending(list->items[i]);
}

static void count_work(struct lls_instance *in)
{
  struct lls_loop_status *s = &in->status;
  s->waiting = in->waiting.n;
  s->running = in->running.n;
  s->preempted = in->preempted.n + in->moving.n;
  s->reading = in->reading.n;
  s->sessions_leased = in->sessions.n_leases;
  s->offered = in->migration.incoming.n;
  s->pending_tokens = 0;
  if (in->n_peers == 1)
    return;
  count_pending(&in->waiting, s);
  count_pending(&in->running, s);
  count_pending(&in->preempted, s);
  count_pending(&in->moving, s);
}

static void count_refusals(const struct lls_policy_host *host,
                           struct lls_policy_status *s)
{
  memcpy(s->name, host->name_text, sizeof s->name);
  s->refusals = host->refusals;
  s->breaches = host->breaches;
}

static void count_memory(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  struct lls_loop_status *s = &in->status;
  struct lls_capacity device, host;
  lls_cache_capacity(in, LLS_TIER_DEVICE, &device);
  lls_cache_capacity(in, LLS_TIER_HOST, &host);
  s->device_units_total = device.total_units;
  s->device_units_free = device.free_units;
  s->host_units_total = host.total_units;
  s->host_units_free = host.free_units;
  memset(s->cached_on_device, 0, sizeof s->cached_on_device);
  memset(s->cached_on_host, 0, sizeof s->cached_on_host);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    count_refusals(p->by_kind[i].host, &s->policies.by_kind[i]);
  count_cached(in, &in->running, s);
  count_cached(in, &in->preempted, s);
  count_cached(in, &in->moving, s);
}

void lls_instance_count(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  lls_block_events_collect(in);
  count_memory(in);
  count_work(in);
  lls_policy_stats_take(in);
  lls_disk_tier_count(in);
  lls_peer_loads_show(in);
  in->deferred = false;
}

/* Drops a row that the engine refuses: its request ends, the other rows still run. Lack
 * of memory is not the cache manager's mistake. */
static void drop_row(struct lls_instance *in, uint32_t row, int rc,
                     const struct lls_error *why)
{
  struct lls_step_batch *b = &in->batch;
  struct lls_live *live = b->live[row];
  unsigned long long id = live->view.id;
  if (rc == -ENOMEM)
    lls_log(in->log, LLS_LOG_ERROR, "engine", "request %llu ends: %s", id, why->text);
  else
    lls_cache_breach(in, "request %llu ends: %s", id, why->text);
  lls_masks_forget(in, live);
  b->n--;
  for (uint32_t i = row; i < b->n; i++) { /* a table stays at its place in b->tables */
    b->live[i] = b->live[i + 1];
    b->live[i]->row = i;
    b->sequences[i] = b->sequences[i + 1];
  }
  lls_lifecycle_finish(in, live, LLS_FINISH_ERROR);
}

/* Called when the engine refuses the cache manager's copies: ends all requests, since
 * blocks may not be where the manager says. */
static void drop_all(struct lls_instance *in, const struct lls_error *why)
{
  lls_cache_breach(in, "all requests of this instance end: %s", why->text);
  in->batch.n_held = 0;
  in->batch.n = in->migration.n_taken = in->migration.n_pulls = 0;
  lls_lifecycle_finish_all(in, LLS_FINISH_ERROR);
}

/* Submits the step without the rows or copies that the engine refuses: a cache manager's
 * mistake, or an adapter that finds no memory, costs requests, not the engine. */
static int submit(struct lls_instance *in, struct lls_engine_batch *batch)
{
  uint32_t culprit;
  batch->culprit = &culprit;
  for (;;) {
    struct lls_error why = {0};
    int rc = lls_engine_submit(in->engine, batch, &why);
    if (rc < 0 && culprit == LLS_BATCH_SOUND)
      in->health.failure = why;
    if (rc == 0 || culprit == LLS_BATCH_SOUND)
      return rc;
    if (culprit == LLS_BATCH_COPIES) {
      drop_all(in, &why);
      batch->n_copies = batch->n_pulls = 0;
    } else {
      drop_row(in, culprit, rc, &why);
    }
    batch->n_sequences = in->batch.n;
  }
}

/* After an error of the device (health.failure): no step follows, all requests end. */
static void break_down(struct lls_instance *in, int rc)
{
  in->health.failed = true;
  atomic_store(&in->health.broken, true);
  lls_log(in->log, LLS_LOG_ERROR, "engine", "step %llu failed: %s",
          (unsigned long long)in->step, lls_error_text(&in->health.failure, rc));
  lls_lifecycle_finish_all(in, LLS_FINISH_ERROR);
}

static bool run(struct lls_instance *in, struct lls_engine_result *result, bool *copied)
{
  struct lls_engine_batch batch = {.n_sequences = in->batch.n,
                                   .sequences = in->batch.sequences,
                                   .n_pulls = in->migration.n_pulls,
                                   .keeps_hidden = lls_draft_asks_reads(in),
                                   .pulls = in->migration.pulls,
                                   .before_draws = lls_masks_fill,
                                   .before_draws_context = in};
  lls_cache_copies(in, &batch.copies, &batch.n_copies);
  in->batch.swaps = any_swaps(batch.copies, batch.n_copies);
  in->status.handed_bytes += lls_migrate_bytes(in);
  if (batch.n_sequences == 0 && batch.n_copies == 0 && batch.n_pulls == 0) {
    *copied = in->moving.n > 0 || lls_offered_are_moving(in);
    lls_transfer_ended(in); /* a transfer may have had its last copy in an earlier step */
    lls_offered_finish_moves(in);
    lls_migrate_arrived(in);
    lls_instance_catch_up(in); /* no forward pass to overlap with */
    return true;
  }
  int rc = submit(in, &batch);
  if (rc == 0) { /* of copies that the engine has found sound */
    in->status.copied_bytes += bytes_of(in, batch.copies, batch.n_copies);
    lls_instance_catch_up(in);
  }
  if (rc == 0)
    rc = lls_engine_wait(in->engine, result, &in->health.failure);
  if (rc == 0) {
    lls_transfer_ended(in);
    lls_offered_finish_moves(in);
    lls_migrate_arrived(in);
    *copied = batch.n_copies > 0 || batch.n_pulls > 0;
    return true;
  }
  lls_disk_tier_arrive_all(in);
  break_down(in, rc);
  return false;
}

/* Returns the cached tokens of running requests on the device, in any form. */
static uint64_t cached_on_device(const struct lls_instance *in)
{
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < in->running.n; i++) {
    const struct lls_request *v = in->running.items[i];
    tokens += v->cached_tokens - lls_most_u32(v->missing_tokens, given_back(in, v));
  }
  return tokens;
}

/* Reports the step to the observer, after count_memory. plan_ns_before:
 * status.plan_ns_sum before this step. */
static void observe(const struct lls_instance *in, int64_t started_ns,
                    int64_t plan_ns_before)
{
  const struct lls_step_report report = {
      .size = sizeof report,
      .instance = in->info.index,
      .step = in->step - 1,
      .started_ns = started_ns,
      .ended_ns = lls_instance_now(in),
      .n_results = in->batch.n,
      .results = in->batch.results,
  };
  const struct lls_loop_census census = {
      .waiting = in->status.waiting,
      .running = in->status.running,
      .preempted = in->status.preempted,
      .offered = in->status.offered,
      .cached_tokens = cached_on_device(in),
      .device_units_total = in->status.device_units_total,
      .device_units_free = in->status.device_units_free,
      .plan_ns = in->status.plan_ns_sum - plan_ns_before,
  };
  in->observer.on_step(in->observer.context, &report, &census);
}

/* Books the rows that ran; if all requests that could run are held, fills their masks.
 * Returns false if there was neither. */
static bool finish(struct lls_instance *in, const struct lls_engine_result *result,
                   int64_t started_ns)
{
  bool any = in->batch.n > 0 || in->batch.n_held > 0;
  int rc = 0;
  if (in->batch.n > 0) {
    lls_histogram_observe(&in->status.step_tokens, result->n_rows);
    rc = lls_instance_commit(in, result, started_ns);
  } else if (any) {
    lls_masks_fill(in);
  }
  lls_masks_release(in);
  if (rc < 0)
    break_down(in, rc);
  return any;
}

/* The delay before the scheduler is called again after a plan that is empty or cannot be
 * placed. Each instance counts it from its own clock, so that of two waiting instances in
 * the simulator neither is always first. */
static const int64_t poll_ns = 1000000;

/* Returns true if the scheduler, in a plan without requests, has named a time at which it
 * plans again for sessions that are still there. */
static bool has_time_for_sessions(const struct lls_instance *in)
{
  return in->sessions_ns > 0 && in->sessions.n_idle > 0;
}

static bool needs_step(const struct lls_instance *in, int64_t now_ns)
{
  return lls_instance_has_work(in) ||
         (has_time_for_sessions(in) && now_ns >= in->sessions_ns);
}

/* Says until when the thread may wait if nothing happens. */
static void set_idle(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  in->wants_step = LLS_HAS(p, cache, wants_step) && LLS_CALL(p, cache, wants_step);
  int64_t soon_ns = lls_time_after(lls_instance_now(in), poll_ns);
  if (lls_disk_tier_is_reading(in)) /* the end of a read does not wake the thread */
    in->idle_until_ns =
        in->idle_until_ns > 0 ? lls_least_i64(in->idle_until_ns, soon_ns) : soon_ns;
  else if (in->idle_until_ns <= 0 && lls_instance_has_work(in))
    in->idle_until_ns = soon_ns;
  else if (in->idle_until_ns <= 0 && has_time_for_sessions(in))
    in->idle_until_ns = in->sessions_ns;
}

bool lls_instance_step(struct lls_instance *in, bool *busy)
{
  LLS_ON_STEP(in);
  int64_t started_ns = lls_instance_now(in), plan_ns = in->status.plan_ns_sum;
  struct lls_engine_result result = {0};
  lls_instance_check(in);
  if (in->adoption.any)
    lls_disk_tier_adopt(in);
  bool go_on = drain(in);
  *busy = false;
  in->idle_until_ns = LLS_NEVER;
  if (needs_step(in, started_ns)) {
    plan_and_place(in);
    go_on = run(in, &result, busy) && go_on;
    lls_migrate_offer_late(in);
    if (go_on || !in->health.failed)
      *busy |= finish(in, &result, started_ns);
    in->step++;
    in->status.steps++;
    if (!in->health.failed)
      lls_drafter_run(in);
  }
  set_idle(in);
  in->deferred = in->overlap != NULL && in->observer.on_step == NULL && go_on && *busy &&
                 lls_instance_has_work(in);
  if (!in->deferred)
    lls_instance_count(in);
  if (*busy && in->batch.n > 0 && in->observer.on_step != NULL)
    observe(in, started_ns, plan_ns);
  lls_instance_check(in);
  return go_on;
}

int64_t lls_instance_idle_ns(const struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->idle_until_ns <= 0)
    return lls_instance_has_work(in) ? poll_ns : LLS_NEVER;
  int64_t left = in->idle_until_ns - lls_instance_now(in);
  return left > 0 ? left : 0;
}
