/* SPDX-License-Identifier: Apache-2.0 */
/* Worth on a device so slow that `chunk` sets the time of steps: which prompts begin. */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

/* 100 tokens take 10 ms, twice the gap. */
static const struct bed_options defaults = {
    .scheduler = {"worth",
                  POLICY_PARAMETERS("margin", "0", "gap", "5ms", "chunk", "100")},
    .cache = {"paged", POLICY_PARAMETERS("prefix_sharing", "off")},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .prefill_ns = MS / 10,
    .audit_every = 1,
};

/* Two prompts come while a stream runs. Expects their tokens in the next step. */
static void expect_tokens(uint32_t first, uint32_t second, int64_t ttft_ns,
                          uint32_t of_first, uint32_t of_second)
{
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit(&bed, 1, 20);
  bed_step(&bed);
  bed.next.slo = (struct lls_slo){ttft_ns, LLS_NEVER, LLS_NEVER, LLS_NEVER};
  submit(&bed, first, 2);
  submit(&bed, second, 2);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 0), 1);
  assert_int_equal(planned(&bed, 1), of_first);
  assert_int_equal(planned(&bed, 2), of_second);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static void test_a_prompt_that_ends_waits_for_none(void **state)
{
  (void)state;
  expect_tokens(30, 40, LLS_NEVER, 30, 40); /* both end */
  expect_tokens(30, 90, LLS_NEVER, 30, 0);  /* the second would not */
  expect_tokens(60, 30, LLS_NEVER, 60, 30); /* the shorter one leaves room */
  expect_tokens(60, 35, LLS_NEVER, 60, 35);
  expect_tokens(55, 65, LLS_NEVER, 55, 0); /* more than half is full */
}

/* A step has tokens for as long as no prompt ends in it. */
static void test_a_long_prompt_fills_the_step(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit(&bed, 1, 20);
  bed_step(&bed);
  submit(&bed, 150, 2);
  bed_step(&bed);
  assert_in_range(planned(&bed, 1), 95, 100);
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Deadlines that are kept have their tokens as before. */
static void test_kept_deadlines_do_not_wait(void **state)
{
  (void)state;
  expect_tokens(55, 65, 10000 * MS, 55, 44);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_prompt_that_ends_waits_for_none),
      cmocka_unit_test(test_a_long_prompt_fills_the_step),
      cmocka_unit_test(test_kept_deadlines_do_not_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
