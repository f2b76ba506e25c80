/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds steps to the report and the log; see watch.h. */
#include "tools/sim/watch.h"

#include <llmserve/scheduler.h>

/* Returns the units that `tokens` would need in KV form if all blocks were full. Tokens
 * shared by several requests are counted for each, but stored once, and those that left a
 * window are stored by some layers only, so the result is at most `used`. */
static uint64_t filled_units(const struct lls_watch *w, uint64_t tokens, uint64_t used)
{
  uint64_t units = w->block_tokens > 0 ? w->block_units * tokens / w->block_tokens : 0;
  return units < used ? units : used;
}

/* Returns the number of active requests that were not in the step. The census was taken
 * after the step, so requests that ended in it are not in the census. */
static uint32_t waiting(const struct lls_step_report *r,
                        const struct lls_loop_census *census)
{
  uint32_t alive =
      census->waiting + census->running + census->preempted + census->offered;
  uint32_t stayed = 0;
  for (uint32_t i = 0; i < r->n_results; i++)
    stayed += r->results[i].request->finish_reason == LLS_FINISH_NONE;
  return alive > stayed ? alive - stayed : 0;
}

static void on_step(void *context, const struct lls_step_report *r,
                    const struct lls_loop_census *census)
{
  struct lls_watch *w = context;
  if (w->decisions.record != NULL)
    lls_decision_log_step(w->decisions.record, r);
  struct lls_report_step step = {
      .begin_ns = r->started_ns,
      .duration_ns = r->ended_ns - r->started_ns,
      .plan_ns = w->measure_plans ? census->plan_ns : LLS_NEVER,
      .requests = r->n_results,
      .waiting = waiting(r, census),
      .used_units = census->device_units_total - census->device_units_free,
  };
  step.filled_units = filled_units(w, census->cached_tokens, step.used_units);
  for (uint32_t i = 0; i < r->n_results; i++) {
    const struct lls_step_result *result = &r->results[i];
    bool decode = result->tokens == 1 && result->emitted > 0 &&
                  result->request->generated_tokens > 1;
    step.decodes += decode;
    step.prefill_tokens += decode ? 0 : result->tokens;
    w->tokens += result->emitted;
  }
  w->steps++;
  lls_report_step(w->report, &step);
}

static void on_arrival(void *context, const struct lls_request *request)
{
  lls_decisions_arrival(&((struct lls_watch *)context)->decisions, request);
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  (void)own;
  lls_decisions_plan(&((struct lls_watch *)context)->decisions, view->now_ns, plan);
}

static void on_finish(void *context, const struct lls_request *request)
{
  lls_decision_log_finish(((struct lls_watch *)context)->decisions.record, request);
}

struct lls_loop_observer lls_watch_observer(struct lls_watch *w, bool recording,
                                            bool comparing)
{
  bool logging = recording || comparing;
  return (struct lls_loop_observer){.context = w,
                                    .on_arrival = logging ? on_arrival : NULL,
                                    .on_plan = logging ? on_plan : NULL,
                                    .on_step = on_step,
                                    .on_finish = recording ? on_finish : NULL};
}
