/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlfq moves memory ahead of need (FastServe, section 4.2), in the real loop on the
 * simulated device. Early uploads leave the reserve free and cost no request its place,
 * and steps wait for far fewer copies than if memory moved only when a request's turn
 * has come.
 */
#include "t/tap.h"

#include <llmserve/cache.h>
#include <llmserve/scheduler.h>

#include "t/harness.h"

#define MODEL    "t/data/models/llama"
#define REQUESTS 24
#define SLOTS    32 /* active requests have distinct ids modulo this */
#define RESERVE  8  /* in units: K and V of a block for each of max_seqs */

struct run {
  struct harness h;
  struct lls_sim_options sim;
  uint32_t ended, uploads, offloads;
  bool came[SLOTS]; /* uploaded, but not run yet */
  uint32_t in_time; /* requests that were resident when their turn came */
};

static const struct lls_request *find(const struct lls_request *const *list, uint32_t n,
                                      uint64_t id)
{
  for (uint32_t i = 0; i < n; i++)
    if (list[i]->id == id)
      return list[i];
  return NULL;
}

static uint32_t count(const struct lls_plan *plan, uint32_t kind)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < plan->n_items; i++)
    n += plan->items[i].kind == kind;
  return n;
}

/* When a plan is observed, its runs already have their memory, while its transfers do
 * not. */
static void check_uploads(const struct lls_step_view *v, const struct lls_plan *plan)
{
  struct lls_capacity device = {.size = sizeof device};
  v->cache->capacity(v->cache->context, LLS_TIER_DEVICE, &device);
  uint32_t left = device.free_units;
  for (uint32_t i = 0; i < plan->n_items; i++) {
    if (plan->items[i].kind != LLS_PLAN_UPLOAD)
      continue;
    const struct lls_request *r =
        find(v->preempted, v->n_preempted, plan->items[i].request);
    struct lls_need need = {.size = sizeof need};
    assert_non_null(r);
    v->cache->need(v->cache->context, r, 1, LLS_FORM_NONE, &need);
    assert_true(need.restore_units + RESERVE <= left);
    left -= need.restore_units;
  }
  assert_int_equal(count(plan, LLS_PLAN_PREEMPT), 0);
  assert_int_equal(count(plan, LLS_PLAN_OFFLOAD), 0);
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  struct run *r = context;
  assert_true(own);
  r->uploads += count(plan, LLS_PLAN_UPLOAD);
  r->offloads += count(plan, LLS_PLAN_OFFLOAD);
  if (count(plan, LLS_PLAN_UPLOAD) > 0)
    check_uploads(view, plan);
  for (uint32_t i = 0; i < plan->n_items; i++) {
    const struct lls_plan_item *item = &plan->items[i];
    bool *came = &r->came[item->request % SLOTS];
    r->in_time += item->kind == LLS_PLAN_RUN && *came;
    *came = item->kind == LLS_PLAN_UPLOAD;
  }
}

static void on_event(void *context, const struct lls_event *event)
{
  struct run *r = context;
  if (event->kind != LLS_EVENT_FINISHED)
    return;
  assert_int_equal(event->reason, LLS_FINISH_STOP);
  r->ended++;
}

/* Requests arrive by step number; their answers have very different lengths. */
static void submit(struct run *r, uint32_t i)
{
  int32_t tokens[64];
  for (uint32_t k = 0; k < 64; k++)
    tokens[k] = (int32_t)((i * 31 + k * 7) % 250) + 3;
  struct lls_submission s = harness_submission(tokens, 10 + i * 7 % 50, 60, NULL);
  s.ignore_eos = false;
  s.sampling.seed = 4 + i * 29 % 55;
  uint64_t id;
  assert_int_equal(lls_loop_submit(r->h.loop, &s, &id, NULL), 0);
}

static struct lls_sim_totals serve(struct run *r, const char *proactive)
{
  const char *const parameters[] = {"preempt", "swap",      "watermark", "0", "max_seqs",
                                    "4",       "proactive", proactive,   NULL};
  *r = (struct run){.sim = {.rates = harness_rates(MODEL, 0.01),
                            .memory = UINT64_C(1) << 40,
                            .eos = 2,
                            .name = "test"}};
  const struct harness_options o = {
      .model = MODEL,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = 256,
      .max_sequences = 16,
      .max_requests = REQUESTS,
      .block_tokens = 16,
      /* 32 blocks: four of the longest requests, which have eight each */
      .device_units = 64,
      .host_units = 400,
      .scheduler = {"mlfq", parameters},
      .cache = {"tiered", NULL},
      .predictor = {"none", NULL},
      .sim = &r->sim,
      .observer = {.context = r, .on_plan = on_plan},
  };
  struct lls_error err = {0};
  if (harness_open(&r->h, &o, &err) < 0)
    fail_msg("%s", err.text);
  for (uint32_t step = 0; r->ended < REQUESTS; step++) {
    assert_true(step < 5000);
    if (step % 4 == 0 && step / 4 < REQUESTS)
      submit(r, step / 4);
    assert_true(lls_loop_step(r->h.loop) >= 0);
    lls_loop_events(r->h.loop, on_event, r);
  }
  struct lls_loop_status status;
  struct lls_sim_totals totals;
  lls_loop_status(r->h.loop, &status);
  lls_sim_totals(r->h.device, &totals);
  assert_int_equal(status.plans_refused, 0);
  assert_int_equal(status.items_refused, 0);
  assert_int_equal(status.preempted_recompute, 0);
  assert_int_equal(status.device_units_free, status.device_units_total);
  harness_close(&r->h);
  return totals;
}

static void test_memory_moves_before_the_turn(void **state)
{
  (void)state;
  static struct run with, without;
  struct lls_sim_totals ahead = serve(&with, "on"), late = serve(&without, "off");
  print_message("# %u uploads, %u in time, %u offloads; waited %.1f and %.1f ms\n",
                with.uploads, with.in_time, with.offloads, (double)ahead.waited_ns * 1e-6,
                (double)late.waited_ns * 1e-6);
  assert_int_equal(without.uploads + without.offloads, 0);
  assert_true(with.offloads > 0);
  assert_true(with.in_time > with.uploads / 2);
  assert_true(late.waited_ns > 0);
  assert_true(ahead.waited_ns < late.waited_ns * 2 / 3);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_moves_before_the_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
