/* SPDX-License-Identifier: Apache-2.0 */
/* Sarathi-Serve: the worked example, decodes that are never delayed, limits. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"sarathi", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 2000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 2048,
    .max_requests = 128,
    .audit_every = 1,
};

static void test_worked_example(void **state)
{
  (void)state;
  expect_cut_prompts(&defaults);
}

/* Expects the tokens of one request in the next n steps. */
static void expect_tokens(struct bed *bed, uint64_t id, const uint32_t *expected,
                          uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    bed_step(bed);
    if (planned(bed, id) != expected[i])
      fail_msg("step %u: %u tokens, not %u", i, planned(bed, id), expected[i]);
  }
}

static void test_decodes_beyond_chunk_all_run(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("chunk", "32");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 33; i++)
    submit(&bed, 1, 10);
  assert_int_equal(bed_step(&bed), 32);
  assert_int_equal(bed_step(&bed), 32); /* 32 decodes fill the budget */
  assert_int_equal(planned(&bed, 32), 0);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static void test_seats(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "2");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 4; i++)
    submit(&bed, 20, 5);
  assert_int_equal(bed_step(&bed), 2);
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
}

/* A prompt is admitted only if all of it fits, and may be preempted half way. */
static void test_whole_prompt_is_reserved(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("chunk", "32", "watermark", "0");
  o.device_units = 24; /* twelve blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 31, 60); /* two blocks, then more */
  submit(&bed, 140, 5); /* nine */
  bed_step(&bed);
  assert_int_equal(planned(&bed, 0), 31);
  assert_int_equal(planned(&bed, 1), 1);
  struct lls_capacity capacity = {.size = sizeof capacity};
  bed.c->capacity(bed.cache_self, LLS_TIER_DEVICE, &capacity);
  assert_int_equal(capacity.free_units, 2); /* 12 - 2 - 9 blocks */
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 31);
  bed_step(
      &bed); /* request 0 takes the last block; then none is free for 1 to grow into */
  bed_finish(&bed, 300);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  assert_true(bed.preempted_recompute > 0);
  bed_close(&bed);
}

#define MS INT64_C(1000000)

/* A token takes 0.1 ms, a step may take 50: 500 tokens, decodes included. */
static void test_a_deadline_sets_the_budget(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("slo", "50ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 40; i++)
    submit(&bed, 1, 10);
  bed_step(&bed);
  submit(&bed, 1200, 2);
  expect_tokens(&bed, 40, (const uint32_t[]){460, 460, 280, 1}, 4);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static uint32_t tokens_of_plan(const struct bed *bed)
{
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < bed->plan.n_items; i++)
    if (bed->plan.items[i].kind == LLS_PLAN_RUN)
      tokens += bed->plan.items[i].tokens;
  return tokens;
}

/* Estimates are 10 % too low: steps filled to 50 ms, which is 500 tokens, take 55. With
 * the margin nine in ten should be in time, after it has seen a few. */
static void test_a_margin_for_the_estimate(void **state)
{
  (void)state;
  for (int with = 0; with < 2; with++) {
    struct bed bed;
    struct bed_options o = defaults;
    uint32_t late = 0;
    o.prefill_ns = MS / 11;
    o.scheduler.parameters =
        POLICY_PARAMETERS("slo", "50ms", "margin", with ? "0.9" : "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    for (int step = 0; step < 100; step++) {
      submit(&bed, 600, 1);
      bed_step(&bed);
      late += step >= 50 && tokens_of_plan(&bed) > 500;
    }
    assert_true(with ? late <= 10 : late == 50);
    bed_finish(&bed, 1000);
    bed_close(&bed);
  }
}

/* The decodes alone exceed the deadline: prompts wait for them, but not forever. */
static void test_a_deadline_that_decodes_miss(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("slo", "1ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 12; i++)
    submit(&bed, 1, 3);
  bed_step(&bed); /* ten of them: a step without decodes has 32 */
  submit(&bed, 64, 2);
  expect_tokens(&bed, 12, (const uint32_t[]){0, 0, 32, 32}, 4);
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 13);
  bed_close(&bed);
}

/* No step can keep the deadline, not even with one stream: `chunk` applies, as without
 * a cost model. */
static void test_a_deadline_that_nothing_keeps(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("slo", "1us", "chunk", "112");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 12; i++)
    submit(&bed, 1, 9);
  bed_step(&bed);
  submit(&bed, 150, 2);
  expect_tokens(&bed, 12, (const uint32_t[]){100, 50, 1}, 3);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static void test_a_deadline_without_a_cost_model(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("slo", "1ms", "chunk", "100");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 150, 2);
  expect_tokens(&bed, 0, (const uint32_t[]){100, 50, 1}, 3);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Four stages of 100 tokens, 128 down to 32: 128 (at 0), 96 (at 128: the second stage),
 * 64 (at 224), 32 (at 288 and 320), ... */
static void test_chunks_shrink_along_a_prompt(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("dynamic_chunks", "on", "chunk_low", "32", "chunk_high", "128",
                        "chunk_tokens", "400", "chunk_stages", "4");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 500, 2);
  expect_tokens(&bed, 0, (const uint32_t[]){128, 96, 64, 64, 32, 32, 32, 32, 20, 1}, 10);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_worked_example),
      cmocka_unit_test(test_decodes_beyond_chunk_all_run),
      cmocka_unit_test(test_seats),
      cmocka_unit_test(test_whole_prompt_is_reserved),
      cmocka_unit_test(test_a_deadline_sets_the_budget),
      cmocka_unit_test(test_a_margin_for_the_estimate),
      cmocka_unit_test(test_a_deadline_that_decodes_miss),
      cmocka_unit_test(test_a_deadline_that_nothing_keeps),
      cmocka_unit_test(test_a_deadline_without_a_cost_model),
      cmocka_unit_test(test_chunks_shrink_along_a_prompt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
