/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixtures with each other and with the real policies: whatever is legal, everybody gets
 * an end and no memory is lost; whatever is illegal is refused without a trace. And the
 * hostile ones do notice a host that breaks the contract.
 */
#include "t/tap.h"

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
};
static const struct harness_policy caches[] = {
    {"null", NULL},
    {"hostile", NULL},
    {"hostile", POLICY_PARAMETERS("later", "60", "uneven", "100", "seed", "3")},
    {"paged", NULL},
};

static struct fake_options options(const struct harness_policy *scheduler,
                                   const struct harness_policy *cache, uint64_t seed)
{
  return (struct fake_options){
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
      .audit = true,
      .expect_refusals = true,
      .seed = seed,
  };
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_every_pair_ends_everything(void **state)
{
  (void)state;
  for (uint32_t s = 0; s < COUNT(schedulers); s++)
    for (uint32_t c = 0; c < COUNT(caches); c++) {
      struct fake_options o = options(&schedulers[s], &caches[c], 10 * s + c);
      workload_run(&o, 40, 0);
    }
}

static void test_engine_of_one_phase_and_whole_prompts(void **state)
{
  (void)state;
  for (uint32_t c = 0; c < COUNT(caches); c++) {
    struct fake_options o = options(&schedulers[1], &caches[c], c);
    o.no_mixed_batch = o.no_chunked_prefill = true;
    o.expect_refusals = false;
    workload_run(&o, 40, 0);
  }
}

/* ---- do the fixtures notice? ---------------------------------------------------- */

static void open_hostile(struct fake *f)
{
  static const struct harness_policy hostile = {"hostile", NULL};
  struct fake_options o = options(&hostile, &hostile, 1);
  o.audit = false;
  assert_int_equal(fake_open(f, &o), 0);
  int32_t tokens[20] = {1, 2, 3};
  fake_submit(f, tokens, 20, 5);
  fake_submit(f, tokens, 20, 5);
  assert_string_equal(f->misbehaviour, "");
}

/* The host did something wrong: the fixture said so. */
static void expect_complaint(struct fake *f, const char *part)
{
  if (strstr(f->misbehaviour, part) == NULL)
    fail_msg("expected \"%s\", found \"%s\"", part, f->misbehaviour);
  f->misbehaviour[0] = '\0';
}

static void test_cache_notices_calls_out_of_order(void **state)
{
  (void)state;
  struct fake f;
  open_hostile(&f);
  struct lls_request *r = &f.by_slot[0]->view, copy = *r;
  struct lls_block_table table;
  f.c->mark(f.cache_self);
  expect_complaint(&f, "mark: no transaction");
  f.c->begin(f.cache_self);
  f.c->begin(f.cache_self);
  expect_complaint(&f, "begin: a transaction is open");
  f.c->rollback(f.cache_self, 7);
  expect_complaint(&f, "rollback: 7 is no mark");
  f.c->reserve(f.cache_self, r, 21, 0, 0);
  expect_complaint(&f, "reserve: 21 tokens of 20");
  f.c->info(f.cache_self, &copy, &(struct lls_cache_info){.size = 64});
  expect_complaint(&f, "another handle");
  f.c->table(f.cache_self, r, &table);
  expect_complaint(&f, "table: before commit");
  fake_close(&f);
}

static void test_cache_notices_what_is_forgotten(void **state)
{
  (void)state;
  struct fake f;
  open_hostile(&f);
  struct lls_request *r = &f.by_slot[0]->view, *q = &f.by_slot[1]->view;
  f.c->begin(f.cache_self);
  f.c->preempt(f.cache_self, r, LLS_PREEMPT_RECOMPUTE);
  while (f.c->reserve(f.cache_self, q, 5, 0, 0) != LLS_RESERVE_OK)
    ;
  assert_string_equal(f.misbehaviour, "");
  f.c->reserve(f.cache_self, r, 1, 0, 0);
  expect_complaint(&f, "reserve: what was preempted");
  f.c->commit(f.cache_self);
  f.c->begin(f.cache_self);
  expect_complaint(&f, "neither computed nor released");
  f.c->commit(f.cache_self);
  f.c->computed(f.cache_self, q, 5);
  expect_complaint(&f, "computed: not reserved");
  f.c->release(f.cache_self, q, 0);
  f.c->release(f.cache_self, q, 0);
  expect_complaint(&f, "has been released");
  fake_close(&f);
}

static void plan_with(struct fake *f, struct lls_step_view *view)
{
  view->size = sizeof *view;
  view->max_tokens = view->max_sequences = 1;
  view->cache = &f->service;
  f->in_transaction = true;
  f->plan.n_items = 0;
  f->plan.idle_until_ns = LLS_NEVER;
  f->c->begin(f->cache_self);
  f->s->plan(f->scheduler_self, view, &f->plan);
  f->c->rollback(f->cache_self, 0);
  f->c->commit(f->cache_self);
}

static void test_scheduler_notices_bad_views(void **state)
{
  (void)state;
  struct fake f;
  open_hostile(&f);
  struct lls_request *r = &f.by_slot[0]->view, *q = &f.by_slot[1]->view;
  const struct lls_request *sorted[] = {r, q}, *unsorted[] = {q, r};
  struct lls_step_view view = {.step = 1, .waiting = sorted, .n_waiting = 2};
  view.now_ns = f.now_ns;
  plan_with(&f, &view);
  assert_string_equal(f.misbehaviour, "");
  plan_with(&f, &view);
  expect_complaint(&f, "view: step 1 after 1");
  view.step++;
  view.waiting = unsorted;
  plan_with(&f, &view);
  expect_complaint(&f, "not sorted");
  view.step++;
  view.waiting = sorted;
  view.n_waiting = 1;
  plan_with(&f, &view);
  expect_complaint(&f, "view: 1 requests of 2");
  view.step++;
  view.n_waiting = 2;
  view.now_ns--;
  plan_with(&f, &view);
  expect_complaint(&f, "time runs backwards");
  view.step++;
  view.now_ns++;
  r->user[1]++;
  plan_with(&f, &view);
  expect_complaint(&f, "user words were touched");
  fake_close(&f);
}

static void test_scheduler_notices_ends_told_twice(void **state)
{
  (void)state;
  struct fake f;
  open_hostile(&f);
  struct lls_request *r = &f.by_slot[0]->view;
  f.s->on_arrival(f.scheduler_self, r);
  expect_complaint(&f, "on_arrival: slot 0 is taken");
  f.s->on_finish(f.scheduler_self, r, LLS_FINISH_STOP);
  expect_complaint(&f, "on_finish: state");
  f.s->on_finish(f.scheduler_self, r, LLS_FINISH_STOP);
  expect_complaint(&f, "is not alive");
  f.s->on_refused(f.scheduler_self, r, LLS_REFUSED_NO_MEMORY);
  expect_complaint(&f, "on_refused");
  fake_close(&f);
}

static void test_predictor_notices_bad_prompts(void **state)
{
  (void)state;
  struct fake f;
  open_hostile(&f);
  struct lls_prediction out;
  int32_t token = 1;
  struct lls_prompt prompt = {
      .size = sizeof prompt, .n_tokens = 1, .tokens = &token, .label = ""};
  f.p->predict(f.predictor_self, 0, &prompt, &out);
  expect_complaint(&f, "may say nothing");
  prompt.max_new_tokens = 3;
  f.p->observe(f.predictor_self, &prompt, 4);
  expect_complaint(&f, "an answer of 4 tokens where 3 are allowed");
  for (uint64_t id = 1; id <= f.caps.max_requests; id++) {
    prompt.id = id;
    f.p->predict(f.predictor_self, id, &prompt, &out);
  }
  f.p->on_end(f.predictor_self, &prompt, 0, LLS_FINISH_STOP);
  expect_complaint(&f, "on_end for reason 1");
  f.p->predict(f.predictor_self, 9000, &prompt, &out);
  expect_complaint(&f, "under the ticket 9000");
  prompt.id = 9001;
  f.p->predict(f.predictor_self, 9001, &prompt, &out);
  expect_complaint(&f, "ends of others were not told");
  fake_close(&f);
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
  return cmocka_run_group_tests(tests, NULL, NULL);
}
