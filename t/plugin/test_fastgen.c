/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic SplitFuse: steps of one size, a prompt begins only if all of it fits,
 * flushing. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"fastgen", (const char *const[]){"budget", "512", NULL}},
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

/* With ten free blocks of 64, A (19 needed) blocks B (5). */
static void test_a_prompt_that_does_not_fit_blocks_the_next(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("budget", "4096");
  o.block_tokens = 64;
  o.device_units = 60; /* thirty blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 1270, 5); /* twenty blocks */
  expect_plan(&bed, "0:1270");
  submit(&bed, 1200, 5);
  submit(&bed, 300, 5);
  for (int i = 0; i < 4; i++)
    expect_plan(&bed, "0:1");
  expect_plan(&bed, "1:1200 2:300");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* A request that cannot grow is skipped and keeps its memory. */
static void test_who_cannot_grow_is_skipped(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 8; /* four blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 32, 3);
  submit(&bed, 30, 20);
  expect_plan(&bed, "0:32 1:30");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "1:1");
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}

/* No request can grow: the last is flushed, and queues behind those that arrived after
 * it. */
static void test_flushed_goes_to_the_back(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 8;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 32, 3);
  submit(&bed, 32, 3);
  expect_plan(&bed, "0:32 1:32");
  submit(&bed, 33, 3);
  expect_plan(&bed, "-1 0:1"); /* one free block left: neither 2 nor 1 fits */
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "2:33");
  assert_true(dumps(&bed, "group 0 request 1"));
  bed_finish(&bed, 50);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  assert_int_equal(bed.preempted_recompute, 1);
  bed_close(&bed);
}

/* No piece of a prompt runs unless the rest fits at that moment. */
static void test_cut_prompts_always_fit(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("budget", "50");
  o.device_units = 60;
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 12; i++)
    submit(&bed, 20 + 30 * (uint32_t)(i % 5), 30);
  for (int steps = 0; bed_alive(&bed) > 0 && steps < 2000; steps++) {
    struct lls_capacity free = {.size = sizeof free};
    bed.c->capacity(bed.cache_self, LLS_TIER_DEVICE, &free);
    bed_step(&bed);
    uint32_t used = 0;
    for (uint32_t i = 0; i < bed.plan.n_items; i++)
      used += bed.plan.items[i].tokens;
    assert_true(used <= 50);
    for (uint32_t i = 0; i < bed.plan.n_items; i++) {
      const struct lls_live *r = bed_find(&bed, bed.plan.items[i].request);
      if (r == NULL || r->view.state != LLS_PREFILLING)
        continue;
      uint32_t held = (r->view.cached_tokens - bed.plan.items[i].tokens + 15) / 16;
      assert_true(2 * ((lls_request_length(&r->view) + 15) / 16 - held) <=
                  free.free_units);
    }
  }
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 12);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_worked_example),
      cmocka_unit_test(test_a_prompt_that_does_not_fit_blocks_the_next),
      cmocka_unit_test(test_who_cannot_grow_is_skipped),
      cmocka_unit_test(test_flushed_goes_to_the_back),
      cmocka_unit_test(test_cut_prompts_always_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
