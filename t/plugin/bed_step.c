/* SPDX-License-Identifier: Apache-2.0 */
/* Submits a bed's requests and runs its steps; see bed.h. */
#include "t/tap.h"

#include "t/plugin/bed.h"

#include <string.h>
#include <unistd.h>

#include "core/instance/outbox.h"

#define BETWEEN_STEPS_NS 1000000

/* ---- what has happened ---------------------------------------------------------- */

static void ignore(void *context, const struct lls_event *event)
{
  (void)context, (void)event;
}

static void fail_with_log(struct bed *bed, const char *what)
{
  char text[4096];
  ssize_t n = pread(bed->log, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  fail_msg("step %u: %s\n%s", bed->step, what, text);
}

/* Frees ended requests, updates counters, reports findings. */
static void look(struct bed *bed)
{
  const struct lls_loop_status *s = &bed->in->status;
  lls_outbox_publish(bed->in->outbox);
  lls_loop_events(bed->harness.loop, ignore, NULL);
  if (s->plans_refused > bed->refused_plans && !bed->o.expect_refusals &&
      !bed->refuse_next && !bed->ask_nobody)
    fail_with_log(bed, "its plan was refused");
  memcpy(bed->finished, s->finished, sizeof bed->finished);
  bed->finished[LLS_FINISH_LENGTH] += s->finished[LLS_FINISH_STOP];
  bed->finished[LLS_FINISH_STOP] = 0;
  bed->refused_plans = s->plans_refused;
  bed->preempted_recompute = s->preempted_recompute;
  bed->preempted_swap = s->preempted_swap;
  bed->shared_tokens = s->shared_tokens;
  if (bed->findings.n == 0)
    return;
  if (bed_complains(bed))
    fail_with_log(bed, bed->found);
  bed_forgive(bed);
}

/* Sets the prediction, before any policy but the predictor has seen the request. */
static void on_arrival(void *context, const struct lls_request *r)
{
  const struct bed *bed = context;
  uint32_t length = bed->next.predicted;
  if (length > 0)
    lls_live_of(r)->view.prediction = (struct lls_prediction){
        .length = length, .low = length, .high = length, .source = LLS_PREDICTED_MODEL};
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  struct bed *bed = context;
  uint32_t decodes = 0, prefills = 0;
  struct lls_plan_item *items = bed->plan.items;
  bed->n_running = view->n_running;
  memcpy(items, plan->items, plan->n_items * sizeof *items);
  bed->plan = *plan;
  bed->plan.items = items;
  for (uint32_t i = 0; i < plan->n_items && own; i++) {
    const struct lls_live *r = bed_find(bed, items[i].request);
    if (items[i].kind != LLS_PLAN_RUN)
      continue;
    bool decode = r->view.generated_tokens > 0 && lls_request_pending(&r->view) == 1;
    *(decode ? &decodes : &prefills) += 1;
  }
  assert_false(bed->o.no_mixed_batch && decodes > 0 && prefills > 0);
}

/* The loop's count of cached tokens must equal the manager's. */
static void check_view(struct bed *bed, const struct lls_request *r)
{
  struct lls_cache_info info = {.size = sizeof info};
  if (r->state == LLS_FINISHED)
    return;
  assert_int_equal(bed->c->info(bed->cache_self, r, &info), 0);
  assert_int_equal(info.cached_tokens, r->cached_tokens);
  assert_int_equal(info.missing_tokens, r->missing_tokens);
}

static void on_step(void *context, const struct lls_step_report *report,
                    const struct lls_loop_census *census)
{
  struct bed *bed = context;
  (void)census;
  for (uint32_t i = 0; i < report->n_results; i++) {
    check_view(bed, report->results[i].request);
    const struct lls_request *r = report->results[i].request;
    bool ends = r->max_new_tokens == 0 && lls_request_pending(r) == 0;
    assert_true(report->results[i].emitted || ends || !bed->o.no_chunked_prefill);
  }
}

struct lls_loop_observer bed_observer(struct bed *bed)
{
  return (struct lls_loop_observer){
      .context = bed, .on_arrival = on_arrival, .on_plan = on_plan, .on_step = on_step};
}

/* ---- requests ------------------------------------------------------------------- */

void bed_receive(struct bed *bed)
{
  lls_instance_receive(bed->in, bed->now_ns);
  look(bed);
}

struct lls_live *bed_submit(struct bed *bed, const int32_t *tokens, uint32_t n,
                            uint32_t output)
{
  uint64_t id;
  struct lls_error err;
  uint32_t most = bed->next.max_new_tokens > output ? bed->next.max_new_tokens : output;
  struct lls_submission s = harness_submission(tokens, n, most, NULL);
  if (bed->next.pooling != LLS_POOLING_NONE)
    s.max_new_tokens = 0;
  s.pooling = bed->next.pooling;
  s.grammar = bed->next.grammar;
  s.ignore_eos = most == output;
  s.sampling.seed = output;
  s.request_class = bed->next.request_class;
  s.tenant = bed->next.tenant;
  s.tenant_name = bed->next.tenant_name;
  s.slo = bed->next.slo;
  lls_sim_advance(bed->harness.device, bed->now_ns);
  int rc = lls_loop_submit(bed->harness.loop, &s, &id, &err);
  if (rc == -ENOSPC)
    return NULL;
  if (rc < 0)
    fail_msg("%s", err.text);
  for (struct lls_live *r = bed->in->inbox->first; r != NULL; r = r->next)
    if (r->view.id == id && bed->next.session != NULL)
      r->view.session = bed->next.session;
  bed_receive(bed);
  return bed_find(bed, id);
}

void bed_cancel(struct bed *bed, struct lls_live *r)
{
  lls_loop_cancel(bed->harness.loop, r->view.id);
  bed_receive(bed);
}

uint32_t bed_alive(const struct bed *bed)
{
  return lls_instance_alive(bed->in);
}

struct lls_live *bed_find(const struct bed *bed, uint64_t id)
{
  return lls_request_table_find(bed->in->table, id);
}

uint32_t bed_number(const struct bed *bed, uint64_t id)
{
  return (uint32_t)(id / bed->in->table->slots) - 1;
}

struct lls_live *bed_numbered(const struct bed *bed, uint32_t number)
{
  for (uint32_t i = 0; i < bed->o.max_requests; i++)
    if (bed->by_slot[i] != NULL && bed_number(bed, bed->by_slot[i]->view.id) == number)
      return bed->by_slot[i];
  return NULL;
}

/* ---- steps ---------------------------------------------------------------------- */

uint32_t bed_step(struct bed *bed)
{
  lls_sim_advance(bed->harness.device, bed->now_ns + BETWEEN_STEPS_NS);
  int busy = lls_loop_step(bed->harness.loop);
  assert_true(busy >= 0);
  bed->now_ns = lls_sim_now(bed->harness.device);
  look(bed);
  bed->step++;
  return busy > 0 ? bed->in->batch.n : 0;
}

void bed_finish(struct bed *bed, uint32_t most_steps)
{
  for (uint32_t i = 0; bed_alive(bed) > 0; i++) {
    if (i == most_steps)
      fail_msg("%u requests are still alive after %u steps", bed_alive(bed), most_steps);
    bed_step(bed);
  }
}

const char *bed_plan_text(const struct bed *bed, char *buffer, size_t size)
{
  size_t n = 0;
  buffer[0] = '\0';
  for (uint32_t i = 0; i < bed->plan.n_items && n < size; i++) {
    const struct lls_plan_item *item = &bed->plan.items[i];
    const char *space = n > 0 ? " " : "";
    uint32_t number = bed_number(bed, item->request);
    if (item->kind == LLS_PLAN_RUN)
      n += (size_t)snprintf(buffer + n, size - n, "%s%u:%u", space, number, item->tokens);
    else if (item->kind == LLS_PLAN_PREEMPT)
      n += (size_t)snprintf(buffer + n, size - n, "%s-%u", space, number);
    else
      n += (size_t)snprintf(buffer + n, size - n, "%sx%u", space, number);
  }
  return buffer;
}
