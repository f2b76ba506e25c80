/* SPDX-License-Identifier: Apache-2.0 */
/* Earliest deadline first: which deadline applies at which time, and which request
 * waits. */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"edf", (const char *const[]){"max_seqs", "1", NULL}},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit_every = 1,
};

/* Milliseconds; 0 is none. */
static int64_t ms(int64_t n)
{
  return n > 0 ? n * MS : LLS_NEVER;
}

static void submit_slo(struct bed *bed, uint32_t length, uint32_t output, int64_t ttft,
                       int64_t tbt, int64_t tpot, int64_t completion)
{
  bed->next.slo = (struct lls_slo){ms(ttft), ms(tbt), ms(tpot), ms(completion)};
  submit(bed, length, output);
}

static void test_the_earliest_of_all(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit_slo(&bed, 10, 1, 0, 0, 0, 0); /* no deadline: last, in order of arrival */
  submit_slo(&bed, 10, 1, 0, 0, 0, 0);
  submit_slo(&bed, 10, 1, 500, 0, 0, 900);
  submit_slo(&bed, 10, 1, 600, 0, 0, 400);
  submit_slo(&bed, 10, 1, 0, 1, 1, 450); /* the first token has no gap before it */
  submit_slo(&bed, 10, 1, 300, 0, 0, 0);
  expect_plan(&bed, "5:10");
  expect_plan(&bed, "3:10");
  expect_plan(&bed, "4:10");
  expect_plan(&bed, "2:10");
  expect_plan(&bed, "0:10");
  expect_plan(&bed, "1:10");
  bed_close(&bed);
}

/* Steps of 1.1 ms: a decode whose next token is due runs before a prompt that is
 * not. */
static void test_gaps_between_tokens(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit_slo(&bed, 10, 9, 1, 20, 0, 0);
  expect_plan(&bed, "0:10"); /* at 2 ms; the next token is due at 22 ms */
  submit_slo(&bed, 10, 1, 10, 0, 0, 0);
  submit_slo(&bed, 10, 1, 30, 0, 0, 0);
  expect_plan(&bed, "1:10");
  expect_plan(&bed, "0:1"); /* 22 against 32 ms; then due at 25 */
  expect_plan(&bed, "0:1"); /* 25 ... */
  for (int i = 0; i < 6; i++)
    expect_plan(&bed, "0:1");
  expect_plan(&bed, "2:10");
  bed_close(&bed);
}

/* The mean of the gaps: token g + 1 is due g * tpot after the first. */
static void test_mean_of_gaps(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit_slo(&bed, 10, 4, 1, 0, 10, 0);
  expect_plan(&bed, "0:10"); /* at 2 ms; then due at 12, 22, 32 ms */
  submit_slo(&bed, 10, 1, 15, 0, 0, 0);
  submit_slo(&bed, 10, 1, 25, 0, 0, 0);
  expect_plan(&bed, "0:1");  /* 12 before 17 */
  expect_plan(&bed, "1:10"); /* 17 before 22 */
  expect_plan(&bed, "0:1");  /* 22 before 27 */
  expect_plan(&bed, "2:10"); /* 27 before 32 */
  expect_plan(&bed, "0:1");
  bed_close(&bed);
}

/* Memory: a waiting request takes none from running ones, unless evict = on. */
static void test_memory(void **state)
{
  (void)state;
  for (int evict = 0; evict < 2; evict++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 24; /* twelve blocks */
    o.scheduler.parameters =
        POLICY_PARAMETERS("evict", evict ? "on" : "off", "watermark", "0");
    assert_int_equal(bed_open(&bed, &o), 0);
    submit_slo(&bed, 96, 20, 0, 0, 0, 800); /* six blocks, all full */
    submit_slo(&bed, 80, 20, 0, 0, 0, 900); /* five */
    expect_plan(&bed, "0:96 1:80");
    submit_slo(&bed, 60, 3, 100, 0, 0, 0);
    if (evict)
      expect_plan(&bed, "-1 2:60 0:1");
    else
      expect_plan(&bed, "0:1"); /* takes the last block; 1 must wait for one */
    bed_finish(&bed, 200);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
    bed_close(&bed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_earliest_of_all),
      cmocka_unit_test(test_gaps_between_tokens),
      cmocka_unit_test(test_mean_of_gaps),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
