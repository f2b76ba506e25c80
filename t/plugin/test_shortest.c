/* SPDX-License-Identifier: Apache-2.0 */
/* sjf and srpt: order by predicted length, with and without preempting running
 * requests. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit_every = 1,
};

static void open_with(struct bed *bed, const char *name, const char *const *parameters,
                      uint32_t device_units)
{
  struct bed_options o = defaults;
  o.scheduler = (struct harness_policy){name, parameters};
  o.device_units = device_units;
  assert_int_equal(bed_open(bed, &o), 0);
}

static struct lls_live *submit_predicted(struct bed *bed, uint32_t length,
                                         uint32_t output, uint32_t predicted)
{
  bed->next.predicted = predicted;
  bed->next.max_new_tokens = 100;
  return submit(bed, length, output);
}

/* A request without a prediction counts with its limit, 100 tokens. */
static void test_sjf_lets_the_shortest_in(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "sjf", POLICY_PARAMETERS("max_seqs", "1"), 200);
  submit_predicted(&bed, 10, 1, 30);
  submit_predicted(&bed, 10, 1, 0);
  submit_predicted(&bed, 10, 1, 20);
  submit_predicted(&bed, 10, 1, 20);
  submit_predicted(&bed, 10, 1, 500);
  expect_plan(&bed, "2:10");
  submit_predicted(&bed, 10, 1, 25);
  expect_plan(&bed, "3:10");
  expect_plan(&bed, "5:10");
  expect_plan(&bed, "0:10");
  expect_plan(&bed, "1:10");
  expect_plan(&bed, "4:10");
  bed_close(&bed);
}

static void test_sjf_stops_nobody(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "sjf", POLICY_PARAMETERS("max_seqs", "1"), 200);
  submit_predicted(&bed, 10, 4, 50);
  expect_plan(&bed, "0:10");
  submit_predicted(&bed, 10, 2, 2);
  for (int i = 0; i < 3; i++)
    expect_plan(&bed, "0:1");
  expect_plan(&bed, "1:10");
  bed_finish(&bed, 10);
  bed_close(&bed);
}

static void test_prompts_may_count(void **state)
{
  (void)state;
  static const char *const names[] = {"sjf", "srpt"};
  for (int i = 0; i < 2; i++) {
    struct bed bed;
    open_with(&bed, names[i], POLICY_PARAMETERS("max_seqs", "1", "prompt_weight", "0.1"),
              200);
    submit_predicted(&bed, 200, 1, 20); /* 40 */
    submit_predicted(&bed, 100, 1, 25); /* 35 */
    expect_plan(&bed, "1:100");
    expect_plan(&bed, "0:200");
    bed_close(&bed);
  }
}

/* A later prediction changes the place in the queue. */
static void test_late_predictions(void **state)
{
  (void)state;
  static const char *const names[] = {"sjf", "srpt"};
  for (int i = 0; i < 2; i++) {
    struct bed bed;
    open_with(&bed, names[i], POLICY_PARAMETERS("max_seqs", "1"), 200);
    submit_predicted(&bed, 10, 1, 50);
    submit_predicted(&bed, 10, 1, 0);
    const struct lls_prediction p = {.length = 5, .source = LLS_PREDICTED_MODEL};
    const struct lls_host *host = &bed.policies.predictor.host;
    assert_int_equal(host->predicted(host->context, bed_numbered(&bed, 1)->view.id, &p),
                     0);
    bed_receive(&bed);
    assert_true(dumps(&bed, "request 1 key 5000"));
    expect_plan(&bed, "1:10");
    expect_plan(&bed, "0:10");
    bed_close(&bed);
  }
}

static void test_srpt_takes_the_place(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "srpt", POLICY_PARAMETERS("max_seqs", "1"), 200);
  submit_predicted(&bed, 10, 6, 6);
  expect_plan(&bed, "0:10");
  expect_plan(&bed, "0:1"); /* four are left */
  submit_predicted(&bed, 20, 5, 5);
  expect_plan(&bed, "0:1");
  submit_predicted(&bed, 30, 2, 2);
  expect_plan(&bed, "2:30"); /* 2 against 3; 0 keeps its memory */
  expect_plan(&bed, "2:1");
  for (int i = 0; i < 3; i++)
    expect_plan(&bed, "0:1");
  expect_plan(&bed, "1:20");
  assert_int_equal(bed.preempted_recompute, 0);
  bed_finish(&bed, 10);
  bed_close(&bed);
}

/* Twelve blocks: the longest gives way to a shorter request; evict = off prevents
 * this. */
static void test_srpt_takes_the_memory(void **state)
{
  (void)state;
  for (int evict = 0; evict < 2; evict++) {
    struct bed bed;
    open_with(&bed, "srpt",
              POLICY_PARAMETERS("evict", evict ? "on" : "off", "watermark", "0"), 24);
    submit_predicted(&bed, 90, 20, 40); /* six blocks */
    submit_predicted(&bed, 90, 20, 50);
    expect_plan(&bed, "0:90 1:90");
    submit_predicted(&bed, 60, 3, 3);
    expect_plan(&bed, evict ? "-1 2:60 0:1" : "0:1 1:1");
    bed_finish(&bed, 200);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
    bed_close(&bed);
  }
}

/* If evicting all longer requests would not free enough, none is evicted. */
static void test_srpt_evicts_nobody_in_vain(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "srpt", POLICY_PARAMETERS("watermark", "0"), 24);
  submit_predicted(&bed, 110, 20, 20); /* seven blocks */
  submit_predicted(&bed, 60, 20, 50);  /* four */
  expect_plan(&bed, "0:110 1:60");
  submit_predicted(&bed, 90, 20, 30); /* six: one free and four are too few */
  expect_plan(&bed, "0:1 1:1");
  assert_int_equal(bed.preempted_recompute, 0);
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* A prediction that was exceeded is doubled, up to max_new_tokens. */
static void test_srpt_overrun(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "srpt", POLICY_PARAMETERS("max_seqs", "1"), 200);
  submit_predicted(&bed, 10, 8, 4);
  submit_predicted(&bed, 10, 2, 3);
  expect_plan(&bed, "1:10");
  expect_plan(&bed, "1:1");
  for (int i = 0; i < 4; i++)
    expect_plan(&bed, i == 0 ? "0:10" : "0:1"); /* assumed to be half done: 4 left */
  submit_predicted(&bed, 10, 1, 3);
  expect_plan(&bed, "2:10");
  expect_plan(&bed, "0:1");
  submit_predicted(&bed, 10, 1, 3); /* 3 left: the older one continues */
  expect_plan(&bed, "0:1");
  bed_finish(&bed, 20);
  bed_close(&bed);
}

/* An engine that cannot mix phases: the chosen prompts, then the chosen decodes. */
static void test_srpt_on_an_engine_of_one_phase(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler = (struct harness_policy){"srpt", POLICY_PARAMETERS("max_seqs", "2")};
  o.no_mixed_batch = o.no_chunked_prefill = true;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit_predicted(&bed, 10, 5, 5);
  expect_plan(&bed, "0:10");
  submit_predicted(&bed, 20, 9, 9);
  submit_predicted(&bed, 30, 20, 20);
  expect_plan(&bed, "1:20"); /* one of the two shortest */
  for (int i = 0; i < 4; i++)
    expect_plan(&bed, "0:1 1:1");
  expect_plan(&bed, "2:30");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sjf_lets_the_shortest_in),
      cmocka_unit_test(test_sjf_stops_nobody),
      cmocka_unit_test(test_prompts_may_count),
      cmocka_unit_test(test_late_predictions),
      cmocka_unit_test(test_srpt_takes_the_place),
      cmocka_unit_test(test_srpt_takes_the_memory),
      cmocka_unit_test(test_srpt_evicts_nobody_in_vain),
      cmocka_unit_test(test_srpt_overrun),
      cmocka_unit_test(test_srpt_on_an_engine_of_one_phase),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
