/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile fixtures with each other and with real policies: whatever is legal, every
 * request ends and no memory is lost; whatever is illegal is refused without a trace.
 * Also: the hostile fixtures detect a host that breaks the contract.
 */
#include "t/tap.h"

#include "core/instance/transaction.h"
#include "t/plugin/workload.h"

#include <string.h>

static const struct harness_policy schedulers[] = {
    {"null", NULL},
    {"hostile", NULL},
    {"hostile", POLICY_PARAMETERS("mode", "illegal", "rejects", "0")},
    {"fcfs", POLICY_PARAMETERS("preempt", "swap")},
    {"fcfs", POLICY_PARAMETERS("watermark", "0", "max_tokens", "64")},
    {"sarathi", POLICY_PARAMETERS("preempt", "swap")},
    {"sarathi", POLICY_PARAMETERS("watermark", "0", "chunk", "40")},
    {"adaserve", POLICY_PARAMETERS("preempt", "swap")},
};
static const struct harness_policy caches[] = {
    {"null", NULL},
    {"hostile", NULL},
    {"hostile", POLICY_PARAMETERS("later", "60", "uneven", "100", "seed", "3")},
    {"paged", NULL},
};

static struct bed_options options(const struct harness_policy *scheduler,
                                  const struct harness_policy *cache, uint64_t seed)
{
  return (struct bed_options){
      .scheduler = *scheduler,
      .cache = *cache,
      .predictor = {"hostile", NULL},
      .block_tokens = 16,
      .device_units = 120,
      .host_units = 60,
      .max_tokens = 300,
      .max_sequences = 24,
      .max_context = 320,
      .max_requests = 40,
      .audit_every = 5,
      .expect_refusals = true,
      .misbehaves = true,
      .seed = seed,
  };
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_every_pair_ends_everything(void **state)
{
  for (uint32_t s = 0; s < COUNT(schedulers); s++)
    for (uint32_t c = 0; c < COUNT(caches); c++) {
      struct bed_options o = options(&schedulers[s], &caches[c], 10 * s + c);
      workload_run(state, &o, 40, 0);
    }
}

static void test_engine_of_one_phase_and_whole_prompts(void **state)
{
  for (uint32_t c = 0; c < COUNT(caches); c++) {
    struct bed_options o = options(&schedulers[1], &caches[c], c);
    o.no_mixed_batch = o.no_chunked_prefill = true;
    o.expect_refusals = false;
    workload_run(state, &o, 40, 0);
  }
}

/* ---- do the fixtures notice? ---------------------------------------------------- */

static void open_hostile(struct bed *bed)
{
  static const struct harness_policy hostile = {"hostile", NULL};
  struct bed_options o = options(&hostile, &hostile, 1);
  o.audit_every = 0;
  assert_int_equal(bed_open(bed, &o), 0);
  int32_t tokens[20] = {1, 2, 3};
  bed_submit(bed, tokens, 20, 5);
  bed_submit(bed, tokens, 20, 5);
  assert_string_equal(bed_found(bed), "");
  bed->broken = true; /* closing the bed must not hide it */
}

/* Expects that the fixture has complained about the host. */
static void expect_complaint(struct bed *bed, const char *part)
{
  if (strstr(bed_found(bed), part) == NULL)
    fail_msg("expected \"%s\", found \"%s\"", part, bed->found);
  bed_forgive(bed);
}

static void test_cache_notices_calls_out_of_order(void **state)
{
  (void)state;
  struct bed bed;
  open_hostile(&bed);
  struct lls_request *r = &bed.by_slot[0]->view, copy = *r;
  struct lls_block_table table;
  bed.c->mark(bed.cache_self);
  expect_complaint(&bed, "mark: no transaction");
  bed.c->begin(bed.cache_self);
  bed.c->begin(bed.cache_self);
  expect_complaint(&bed, "begin: a transaction is open");
  bed.c->rollback(bed.cache_self, 7);
  expect_complaint(&bed, "rollback: 7 is no mark");
  bed.c->reserve(bed.cache_self, r, 21, 0, 0);
  expect_complaint(&bed, "reserve: 21 tokens of 20");
  bed.c->info(bed.cache_self, &copy, &(struct lls_cache_info){.size = 64});
  expect_complaint(&bed, "another handle");
  bed.c->table(bed.cache_self, r, &table);
  expect_complaint(&bed, "table: before commit");
  bed_close(&bed);
}

static void test_cache_notices_what_is_forgotten(void **state)
{
  (void)state;
  struct bed bed;
  open_hostile(&bed);
  struct lls_request *r = &bed.by_slot[0]->view, *q = &bed.by_slot[1]->view;
  bed.c->begin(bed.cache_self);
  bed.c->preempt(bed.cache_self, r, LLS_PREEMPT_RECOMPUTE);
  while (bed.c->reserve(bed.cache_self, q, 5, 0, 0) != LLS_RESERVE_OK)
    ;
  assert_string_equal(bed_found(&bed), "");
  bed.c->reserve(bed.cache_self, r, 1, 0, 0);
  expect_complaint(&bed, "reserve: what was preempted");
  bed.c->commit(bed.cache_self);
  bed.c->begin(bed.cache_self);
  expect_complaint(&bed, "neither computed nor released");
  bed.c->commit(bed.cache_self);
  bed.c->computed(bed.cache_self, q, 5);
  expect_complaint(&bed, "computed: not reserved");
  const struct lls_release how = {.size = sizeof how};
  bed.c->release(bed.cache_self, q, &how);
  bed.c->release(bed.cache_self, q, &how);
  expect_complaint(&bed, "has been released");
  bed_close(&bed);
}

static void plan_with(struct bed *bed, struct lls_step_view *view)
{
  view->size = sizeof *view;
  view->max_tokens = view->max_sequences = 1;
  view->cache = &bed->in->service;
  bed->in->plan.n_items = 0;
  bed->in->plan.idle_until_ns = LLS_NEVER;
  lls_transaction_open(bed->in);
  bed->s->plan(bed->scheduler_self, view, &bed->in->plan);
  lls_transaction_rollback(bed->in, 0);
  bed->c->commit(bed->cache_self);
  lls_transaction_close(bed->in);
}

static void test_scheduler_notices_bad_views(void **state)
{
  (void)state;
  struct bed bed;
  open_hostile(&bed);
  struct lls_request *r = &bed.by_slot[0]->view, *q = &bed.by_slot[1]->view;
  const struct lls_request *sorted[] = {r, q}, *unsorted[] = {q, r};
  struct lls_step_view view = {.step = 1, .waiting = sorted, .n_waiting = 2};
  view.now_ns = bed.now_ns;
  plan_with(&bed, &view);
  assert_string_equal(bed_found(&bed), "");
  plan_with(&bed, &view);
  expect_complaint(&bed, "view: step 1 after 1");
  view.step++;
  view.waiting = unsorted;
  plan_with(&bed, &view);
  expect_complaint(&bed, "not sorted");
  view.step++;
  view.waiting = sorted;
  view.n_waiting = 1;
  plan_with(&bed, &view);
  expect_complaint(&bed, "view: 1 requests of 2");
  view.step++;
  view.n_waiting = 2;
  view.now_ns--;
  plan_with(&bed, &view);
  expect_complaint(&bed, "time runs backwards");
  view.step++;
  view.now_ns++;
  r->user[1]++;
  plan_with(&bed, &view);
  expect_complaint(&bed, "user words were touched");
  bed_close(&bed);
}

static void test_scheduler_notices_ends_told_twice(void **state)
{
  (void)state;
  struct bed bed;
  open_hostile(&bed);
  struct lls_request *r = &bed.by_slot[0]->view;
  bed.s->on_arrival(bed.scheduler_self, r);
  expect_complaint(&bed, "on_arrival: slot 0 is taken");
  bed.s->on_finish(bed.scheduler_self, r, LLS_FINISH_STOP);
  expect_complaint(&bed, "on_finish: state");
  bed.s->on_finish(bed.scheduler_self, r, LLS_FINISH_STOP);
  expect_complaint(&bed, "is not alive");
  bed.s->on_refused(bed.scheduler_self, r, LLS_REFUSED_NO_MEMORY);
  expect_complaint(&bed, "on_refused");
  bed_close(&bed);
}

static void test_predictor_notices_bad_prompts(void **state)
{
  (void)state;
  struct bed bed;
  open_hostile(&bed);
  struct lls_prediction out;
  int32_t token = 1;
  struct lls_prompt prompt = {
      .size = sizeof prompt, .n_tokens = 1, .tokens = &token, .label = ""};
  bed.p->predict(bed.predictor_self, 0, &prompt, &out);
  expect_complaint(&bed, "may say nothing");
  prompt.max_new_tokens = 3;
  bed.p->observe(bed.predictor_self, &prompt, 4);
  expect_complaint(&bed, "an answer of 4 tokens where 3 are allowed");
  for (uint64_t id = 1; id <= bed.in->caps.max_requests; id++) {
    prompt.id = id;
    bed.p->predict(bed.predictor_self, id, &prompt, &out);
    bed_forgive(&bed); /* its predictions are as hostile as itself */
  }
  bed.p->on_end(bed.predictor_self, &prompt, 0, LLS_FINISH_STOP);
  expect_complaint(&bed, "on_end for reason 1");
  bed.p->predict(bed.predictor_self, 9000, &prompt, &out);
  expect_complaint(&bed, "under the ticket 9000");
  prompt.id = 9001;
  bed.p->predict(bed.predictor_self, 9001, &prompt, &out);
  expect_complaint(&bed, "ends of others were not told");
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_pair_ends_everything),
      cmocka_unit_test(test_engine_of_one_phase_and_whole_prompts),
      cmocka_unit_test(test_cache_notices_calls_out_of_order),
      cmocka_unit_test(test_cache_notices_what_is_forgotten),
      cmocka_unit_test(test_scheduler_notices_bad_views),
      cmocka_unit_test(test_scheduler_notices_ends_told_twice),
      cmocka_unit_test(test_predictor_notices_bad_prompts),
  };
  return cmocka_run_group_tests(tests, workload_setup, workload_teardown);
}
