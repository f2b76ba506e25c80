/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one workload through one machine; see run.h. */
#include "tools/sim/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/progress_bar.h"
#include "core/base/text.h"
#include "core/loop/policy_stats_json.h"
#include "kernels/sim/sim.h"
#include "tools/sim/history.h"
#include "tools/sim/machine.h"
#include "tools/profile/served.h"
#include "tools/sim/watch.h"
#include "tools/workload/issue.h"

/* The loop ends a policy that plans nothing 1,000 times in a row; a policy that avoids
 * this for this many steps is stuck. */
#define MOST_IDLE_STEPS 10000000
#define SHOWN_STEPS     256 /* steps between two updates of the progress */

/* A request that ended at a time which other instances have not reached yet. */
struct ending {
  const struct lls_item *item;
  int64_t at_ns;
};

struct run {
  const struct lls_sim_tool_options *options;
  const struct lls_workload *workload;
  struct lls_machine machine;
  struct lls_watch watch;
  struct lls_issuer *issuer;
  struct lls_histories *histories;
  struct lls_report *report;
  struct lls_progress progress;
  struct lls_track *tracks; /* (n_items), by the item's index */
  int32_t *prompt;          /* (max_prompt) scratch */
  uint32_t ended;
  int64_t wake_ns;        /* time of the next arrival; LLS_NEVER if unknown */
  struct ending *endings; /* (n_items) ends not yet reported to the issuer */
  uint32_t n_endings;
  /* the instance whose turn it was ended requests without running any, so it plans once
   * more before time passes */
  bool again;
  bool no_history; /* no memory for the tokens of a session */
  struct lls_error *err;
};

/* ---- one request ------------------------------------------------------------------- */

static const char *failure_of(uint32_t reason)
{
  switch (reason) {
  case LLS_FINISH_CAPACITY:
    return "capacity";
  case LLS_FINISH_REJECTED:
    return "rejected";
  case LLS_FINISH_CANCELLED:
    return "cancelled";
  default:
    return "error";
  }
}

static void end(struct run *r, struct lls_track *track, const char *failure,
                int64_t now_ns)
{
  const struct lls_item *item = track->outcome.item;
  if (failure != NULL)
    snprintf(track->outcome.error, sizeof track->outcome.error, "%s", failure);
  lls_report_end(r->report, track,
                 failure == NULL ? LLS_OUTCOME_COMPLETED : LLS_OUTCOME_FAILED, now_ns);
  r->endings[r->n_endings++] = (struct ending){.item = item, .at_ns = now_ns};
  r->ended++;
}

static void on_finished(struct run *r, struct lls_track *track,
                        const struct lls_event *event)
{
  struct lls_report_outcome *o = &track->outcome;
  bool whole = event->reason == LLS_FINISH_STOP || event->reason == LLS_FINISH_LENGTH;
  if (whole && o->item->tool != NULL)
    lls_loop_session_calls(r->machine.loop, event, o->item->tool);
  o->first_scheduled_ns = event->first_scheduled_ns;
  o->preemptions = event->preemptions;
  if (event->prediction.source != LLS_PREDICTED_NOT)
    o->predicted_tokens = event->prediction.length;
  if (event->life != NULL)
    lls_report_life(r->report, track, event->life);
  end(r, track, whole ? NULL : failure_of(event->reason), event->finished_ns);
}

static void on_token(struct run *r, struct lls_track *track,
                     const struct lls_event *event)
{
  lls_report_tokens(r->report, track, lls_machine_now(&r->machine), 1);
  if (!event->hidden_token &&
      lls_histories_token(r->histories, track->outcome.item, event->token.token) < 0)
    r->no_history = true;
}

static void on_event(void *context, const struct lls_event *event)
{
  struct run *r = context;
  if (event->kind == LLS_EVENT_TOKEN)
    on_token(r, event->owner, event);
  else
    on_finished(r, event->owner, event);
}

/* Returns the start of a request's latency: if it had to wait for the concurrency
 * limit, the time at which it was admitted. */
static int64_t start_of(const struct run *r, int64_t now_ns)
{
  int64_t due_ns = lls_issuer_due_ns(r->issuer);
  return r->options->max_concurrency == 0 && due_ns != LLS_NEVER ? due_ns : now_ns;
}

static struct lls_submission submission_of(struct run *r, const struct lls_item *item,
                                           char tenant[LLS_ITEM_TENANT_BYTES])
{
  return (struct lls_submission){
      .tokens = r->prompt,
      .n_tokens = item->prompt_tokens,
      .text = item->text,
      .text_bytes = item->text != NULL ? strlen(item->text) : 0,
      .label = item->label,
      .sampling = {.top_p = 1, .repetition_penalty = 1, .seed = item->output_tokens},
      .max_new_tokens = item->max_new_tokens,
      .request_class = item->request_class,
      .priority = item->priority,
      .tenant = item->tenant,
      .tenant_name = lls_item_tenant(item->tenant, tenant),
      .slo = item->slo,
      .session.name = item->session,
      .owner = &r->tracks[item->index],
  };
}

static int submit(struct run *r, const struct lls_item *item, int64_t now_ns)
{
  struct lls_track *track = &r->tracks[item->index];
  int64_t start_ns = start_of(r, now_ns);
  int rc =
      lls_item_fill(r->workload, item, 0, (int32_t)r->machine.model.vocab, r->prompt);
  if (rc < 0)
    return lls_fail(r->err, rc,
                    "request %s has token ids beyond the model's vocabulary of %u",
                    item->label, r->machine.model.vocab);
  if (lls_histories_begin(r->histories, item, r->prompt) < 0 || r->no_history)
    return lls_fail(r->err, -ENOMEM, "no memory for the tokens of session %s",
                    item->session);
  char tenant[LLS_ITEM_TENANT_BYTES];
  struct lls_submission s = submission_of(r, item, tenant);
  s.arrival_ns = start_ns;
  if (r->machine.real) { /* a model of random weights never ends an answer by itself */
    s.ignore_eos = true;
    s.max_new_tokens = item->output_tokens;
  }
  uint64_t id;
  lls_report_begin(r->report, track, item, start_ns);
  rc = lls_loop_submit(r->machine.loop, &s, &id, NULL);
  if (rc == -ENOMEM)
    return lls_fail(r->err, rc, "no memory for request %s", item->label);
  if (rc < 0)
    end(r, track, rc == -E2BIG ? "longer than the context" : "queue full", now_ns);
  return 0;
}

/* ---- the whole --------------------------------------------------------------------- */

/* Reports the ends up to now_ns to the issuer, in order of time. */
static void tell_endings(struct run *r, int64_t now_ns)
{
  uint32_t left = 0;
  for (uint32_t i = 0; i < r->n_endings; i++)
    if (r->endings[i].at_ns <= now_ns)
      lls_issuer_ended(r->issuer, r->endings[i].item, r->endings[i].at_ns);
    else
      r->endings[left++] = r->endings[i];
  r->n_endings = left;
}

/* Submits all requests that are due. */
static int issue(struct run *r, int64_t now_ns)
{
  const struct lls_item *item;
  int rc = 0;
  r->wake_ns = LLS_NEVER;
  tell_endings(r, now_ns);
  while (rc == 0 && (item = lls_issuer_next(r->issuer, now_ns, &r->wake_ns)) != NULL) {
    rc = submit(r, item, now_ns);
    tell_endings(r, now_ns); /* the ends of requests that were refused immediately */
  }
  return rc;
}

static int64_t earlier(int64_t a, int64_t b)
{
  return a == LLS_NEVER || (b != LLS_NEVER && b < a) ? b : a;
}

/* Advances to the next event: an instance's turn, an arrival, or an end that the issuer
 * waits for. */
static int next_turn(struct run *r, uint32_t *instance, bool *runs)
{
  int64_t next_ns = lls_loop_next_ns(r->machine.loop, instance);
  int64_t now_ns = lls_machine_now(&r->machine);
  if (r->again && (next_ns == LLS_NEVER || now_ns <= next_ns)) {
    next_ns = now_ns;
    *instance = r->machine.turn;
    r->again = false;
  }
  int64_t until_ns = earlier(next_ns, r->wake_ns);
  for (uint32_t i = 0; i < r->n_endings; i++)
    until_ns = earlier(until_ns, r->endings[i].at_ns);
  if (until_ns == LLS_NEVER)
    return lls_fail(r->err, -EDEADLK,
                    "nothing runs, arrives or is waited for: %u of %u "
                    "requests have ended",
                    r->ended, lls_issuer_total(r->issuer));
  int64_t least_ns = lls_machine_least(&r->machine);
  if (until_ns < least_ns) /* an event during a step is handled after the step */
    until_ns = least_ns;
  lls_machine_wait(&r->machine, until_ns);
  int rc = issue(r, until_ns);
  *runs = next_ns != LLS_NEVER && next_ns <= until_ns && !lls_issuer_done(r->issuer);
  return rc;
}

static int run_instance(struct run *r, uint32_t instance, uint64_t *idle_steps)
{
  uint32_t ended = r->ended;
  r->machine.turn = instance;
  int busy = lls_loop_step_one(r->machine.loop, instance);
  if (busy < 0) {
    struct lls_error why = {0};
    lls_loop_failed(r->machine.loop, &why);
    return lls_fail(r->err, busy, "the engine failed: %s", why.text);
  }
  lls_loop_events(r->machine.loop, on_event, r);
  r->again = !busy && ended != r->ended;
  *idle_steps = busy || ended != r->ended ? 0 : *idle_steps + 1;
  if (*idle_steps > MOST_IDLE_STEPS)
    return lls_fail(r->err, -EDEADLK,
                    "%d steps ran nothing while requests wait: the scheduler puts them "
                    "off for ever",
                    MOST_IDLE_STEPS);
  return 0;
}

static int step(struct run *r, uint64_t *idle_steps)
{
  uint32_t instance;
  bool runs = false;
  int rc = next_turn(r, &instance, &runs);
  return rc == 0 && runs ? run_instance(r, instance, idle_steps) : rc;
}

static void show_progress(struct run *r)
{
  char more[40];
  snprintf(more, sizeof more, "%.0f s simulated",
           (double)lls_machine_now(&r->machine) * 1e-9);
  lls_progress_count(&r->progress, r->ended, lls_issuer_total(r->issuer), "requests",
                     more);
}

static int run_to_end(struct run *r)
{
  int rc = 0;
  uint64_t idle_steps = 0;
  for (uint64_t n = 0; rc == 0 && !lls_issuer_done(r->issuer); n++) {
    rc = step(r, &idle_steps);
    if (n % SHOWN_STEPS == 0)
      show_progress(r);
  }
  return rc;
}

/* Totals over all devices. */
static struct lls_sim_totals totals_of(const struct lls_machine *m)
{
  struct lls_sim_totals sum = {0}, one;
  for (uint32_t i = 0; i < m->instances.n; i++) {
    lls_sim_totals(m->devices[i], &one);
    sum.copy_ns += one.copy_ns;
    for (int kind = 0; kind <= LLS_COPY_DEVICE_TO_DEVICE; kind++)
      sum.copied_bytes[kind] += one.copied_bytes[kind];
  }
  return sum;
}

static void report_totals(struct run *r)
{
  struct lls_loop_status s;
  lls_loop_status(r->machine.loop, &s);
  for (uint64_t i = 0; i < s.preempted_recompute; i++)
    lls_report_preemption(r->report, LLS_PREEMPT_RECOMPUTE);
  for (uint64_t i = 0; i < s.preempted_swap; i++)
    lls_report_preemption(r->report, LLS_PREEMPT_SWAP);
  if (r->machine.real)
    return;
  struct lls_sim_totals totals = totals_of(&r->machine);
  for (int kind = 0; kind <= LLS_COPY_DEVICE_TO_DEVICE; kind++)
    lls_report_bytes(r->report, (enum lls_copy_way)kind, totals.copied_bytes[kind]);
}

static int create_report(struct run *r)
{
  const struct lls_sim_tool_options *o = r->options;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(r->machine.engines[0]);
  const struct lls_report_options options = {
      .goodput = o->goodput,
      .percentiles = o->metric_percentiles,
      .warm_up_ns = o->warm_up,
      .memory_units = pool->device_units,
      .keep_gaps = o->save_detailed,
  };
  r->watch.block_tokens = pool->block_tokens;
  r->watch.block_units = lls_all_units(pool);
  int rc = lls_report_create(r->workload, &options, &r->report, r->err);
  r->watch.report = r->report;
  return rc;
}

static uint32_t longest_prompt(const struct lls_workload *w)
{
  uint32_t longest = 1;
  for (uint32_t i = 0; i < w->n_items; i++)
    if (w->items[i].prompt_tokens > longest)
      longest = w->items[i].prompt_tokens;
  return longest;
}

static int allocate(struct run *r)
{
  const struct lls_workload *w = r->workload;
  r->tracks = calloc(w->n_items + (size_t)1, sizeof *r->tracks);
  r->endings = calloc(w->n_items + (size_t)1, sizeof *r->endings);
  r->prompt = malloc(longest_prompt(w) * sizeof *r->prompt);
  uint32_t most = (uint32_t)r->options->max_concurrency;
  int rc = r->tracks != NULL && r->endings != NULL && r->prompt != NULL
               ? lls_issuer_create(w, most, &r->issuer)
               : -ENOMEM;
  if (rc == 0)
    rc = lls_histories_create(w, &r->histories);
  return rc < 0 ? lls_fail(r->err, rc, "no memory for %u requests", w->n_items) : 0;
}

static double acceptance_of(const void *owner, double otherwise)
{
  const struct lls_track *track = owner;
  const struct lls_item *item = track->outcome.item;
  return item->has_acceptance ? item->acceptance : otherwise;
}

/* Do rows of the workload say how often guesses of their answers are right? */
static bool any_acceptance(const struct lls_workload *w)
{
  bool any = false;
  for (uint32_t i = 0; i < w->n_items; i++)
    any |= w->items[i].has_acceptance;
  return any;
}

static int prepare(struct run *r)
{
  int rc = allocate(r);
  if (rc < 0)
    return rc;
  r->watch.measure_plans = r->options->measure_plans;
  const struct lls_sim_tool_options *o = r->options;
  struct lls_sim_tool_options own = *o;
  own.acceptance_of = any_acceptance(r->workload) ? acceptance_of : NULL;
  struct lls_loop_observer observer =
      lls_watch_observer(&r->watch, o->record[0] != '\0', o->against[0] != '\0');
  rc = lls_machine_open(&r->machine, &own, NULL, r->workload->n_items + 1, &observer,
                        r->err);
  if (rc < 0)
    return rc;
  uint32_t most = (uint32_t)r->machine.config.engine.max_requests;
  rc = lls_decisions_open(&r->watch.decisions, o->record, o->against, most, r->err);
  if (rc < 0)
    return rc;
  if (o->record[0] != '\0')
    lls_machine_begin_log(&r->machine, r->watch.decisions.record);
  return create_report(r);
}

/* ---- results ----------------------------------------------------------------------- */

static json_t *describe_memory(const struct lls_machine *m)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(m->engines[0]);
  uint64_t unit = lls_unit_bytes(pool);
  struct lls_text groups = {0};
  lls_engine_describe_cache(m->engines[0], lls_engine_caps(m->engines[0])->max_context,
                            &groups);
  json_t *memory = json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:s*}", "weight_bytes",
      (json_int_t)lls_engine_weight_bytes(m->engines[0]), "cache_bytes",
      (json_int_t)(pool->device_units * unit), "cache_tokens",
      (json_int_t)lls_pool_tokens(pool, pool->device_units), "host_cache_bytes",
      (json_int_t)(pool->host_units * unit), "block_tokens",
      (json_int_t)pool->block_tokens, "cache", groups.failed ? NULL : groups.data);
  lls_text_free(&groups);
  return memory;
}

/* Returns the time of the instance that is furthest ahead. */
static int64_t latest(struct lls_machine *m)
{
  int64_t now_ns = lls_machine_now(m);
  for (uint32_t i = 0; i < m->instances.n && !m->real; i++)
    if (lls_sim_now(m->devices[i]) > now_ns)
      now_ns = lls_sim_now(m->devices[i]);
  return now_ns;
}

static json_t *describe_instances(const struct lls_machine *m)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < m->instances.n; i++) {
    struct lls_loop_status s;
    struct lls_sim_totals totals;
    uint32_t role;
    lls_loop_instance_status(m->loop, i, &role, &s);
    lls_sim_totals(m->devices[i], &totals);
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "role",
                        lls_role_name(role), "steps", (json_int_t)s.steps, "busy_s",
                        (double)s.device_ns_sum * 1e-9, "generated_tokens",
                        (json_int_t)s.generated_tokens, "handed_over",
                        (json_int_t)s.handed_over, "taken_over", (json_int_t)s.taken_over,
                        "pulled_bytes", (json_int_t)totals.pulled_bytes, "pulls",
                        (json_int_t)totals.pulls, "pull_s", (double)totals.pull_ns * 1e-9,
                        "pull_link_s", (double)totals.pull_link_ns * 1e-9));
  }
  return list;
}

/* The policies of each instance at the end of the run. */
static json_t *describe_policies(const struct lls_machine *m)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < m->instances.n; i++)
    json_array_append_new(list, lls_policy_stats_json(m->loop, i));
  return list;
}

/* Compares the profile with a server's steps: the median of simulated over served time,
 * and its error. NULL: the trace has no steps. */
static json_t *describe_served(const struct lls_machine *m, const char *path)
{
  struct lls_profile_steps steps;
  struct lls_served_fit fit;
  json_t *out = NULL;
  if (lls_served_steps_read(path, &steps, NULL) == 0 && steps.n > 0 &&
      lls_served_steps_fit(steps.points, steps.n, &m->rates, &fit) == 0)
    out = json_pack("{s:I, s:f, s:f}", "steps", (json_int_t)steps.n, "times", fit.times,
                    "error", fit.error);
  lls_profile_steps_free(&steps);
  return out;
}

static json_t *describe_disk(const struct lls_loop_status *s)
{
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "blocks", (json_int_t)s->disk_blocks_total,
      "blocks_used", (json_int_t)s->disk_blocks_used, "written_bytes",
      (json_int_t)s->disk_written_bytes, "read_bytes", (json_int_t)s->disk_read_bytes,
      "shared_tokens", (json_int_t)s->shared_on_disk, "blocks_held",
      (json_int_t)s->disk_blocks_held, "fetched_tokens",
      (json_int_t)s->disk_fetched_tokens);
}

/* Describes the machine, with names instead of paths, so that the same run elsewhere
 * gives the same bytes. */
static json_t *describe(struct run *r)
{
  struct lls_machine *m = &r->machine;
  struct lls_loop_status s;
  struct lls_sim_totals totals = {0};
  char device[256];
  lls_loop_status(m->loop, &s);
  m->devices[0]->ops->identify(m->devices[0], device, sizeof device);
  if (!m->real)
    totals = totals_of(m);
  json_t *all = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:b}",
      "device", m->real ? device : m->profile.device.name, "model",
      m->config.server.served_model_name, "scheduler",
      m->config.policies.scheduler.module->descriptor->id, "cache",
      m->config.policies.cache.module->descriptor->id, "predictor",
      m->config.policies.predictor.module->descriptor->id, "ranks", (json_int_t)m->ranks,
      "stages", (json_int_t)r->options->stages, "memory", describe_memory(m), "clock_s",
      (double)latest(m) * 1e-9, "busy_s", (double)s.device_ns_sum * 1e-9, "copy_s",
      (double)totals.copy_ns * 1e-9, "steps", (json_int_t)s.steps, "shared_tokens",
      (json_int_t)s.shared_tokens, "plans_refused", (json_int_t)s.plans_refused,
      "fallen_back", s.fallen_back);
  if (all != NULL)
    json_object_set_new(all, "policies", describe_policies(m));
  if (s.disk_blocks_total > 0 && all != NULL)
    json_object_set_new(all, "disk", describe_disk(&s));
  if (m->instances.n > 1 && all != NULL)
    json_object_set_new(all, "instances", describe_instances(m));
  json_t *served = all != NULL && !m->real && r->options->history != NULL
                       ? describe_served(m, r->options->history)
                       : NULL;
  if (served != NULL)
    json_object_set_new(all, "served_steps", served);
  return all;
}

static int finish(struct run *r, struct lls_sim_result *out)
{
  report_totals(r);
  *out = (struct lls_sim_result){.report = r->report,
                                 .machine = describe(r),
                                 .decisions = lls_decisions_json(&r->watch.decisions)};
  r->report = NULL;
  if (!r->options->quiet)
    lls_decisions_print(&r->watch.decisions, stdout);
  int rc = out->machine != NULL ? lls_decisions_close(&r->watch.decisions, r->err)
                                : lls_fail(r->err, -ENOMEM, "no memory for the report");
  if (rc < 0)
    lls_sim_result_free(out);
  return rc;
}

int lls_sim_run(const struct lls_sim_tool_options *options,
                const struct lls_workload *workload, struct lls_sim_result *out,
                struct lls_error *err)
{
  struct run *r = calloc(1, sizeof *r);
  if (r == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  r->options = options;
  r->workload = workload;
  r->err = err;
  int rc = prepare(r);
  if (rc == 0) {
    lls_progress_begin(&r->progress, !options->quiet && !options->one_of_many,
                       "llmserve-sim");
    rc = run_to_end(r);
    lls_progress_end(&r->progress);
  }
  if (rc == 0)
    rc = finish(r, out);
  lls_decisions_close(&r->watch.decisions, NULL);
  lls_machine_close(&r->machine);
  lls_report_destroy(r->report);
  lls_histories_destroy(r->histories);
  lls_issuer_destroy(r->issuer);
  free(r->tracks);
  free(r->endings);
  free(r->prompt);
  free(r);
  return rc;
}

void lls_sim_result_free(struct lls_sim_result *result)
{
  lls_report_destroy(result->report);
  json_decref(result->machine);
  json_decref(result->decisions);
  *result = (struct lls_sim_result){0};
}
