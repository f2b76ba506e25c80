/* SPDX-License-Identifier: Apache-2.0 */
/* Skip-join MLFQ: joining, demotion, promotion, and evictions. */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"mlfq", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .prefill_ns = MS, /* a millisecond per token */
    .audit_every = 1,
};

static void expect_level(struct bed *bed, uint64_t request, uint32_t level)
{
  char line[80];
  snprintf(line, sizeof line, "level %u request %llu", level,
           (unsigned long long)request);
  if (!dumps(bed, line))
    fail_msg("expected \"%s\" in\n%s", line, bed->text);
}

/* Prefills of 5/10/11/40/100/640 ms join levels 0 0 1 2 4 6. */
static void test_join_levels(void **state)
{
  (void)state;
  static const uint32_t prefill_ms[] = {5, 10, 11, 40, 100, 640};
  static const uint32_t levels[] = {0, 0, 1, 2, 4, 6};
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  for (uint32_t i = 0; i < 6; i++)
    submit(&bed, prefill_ms[i], 2);
  for (uint32_t i = 0; i < 6; i++)
    expect_level(&bed, i, levels[i]);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* Reports to the scheduler that the request ran for `ms`. */
static void serve(struct bed *bed, const struct lls_live *r, int64_t ms)
{
  const struct lls_step_result result = {.request = &r->view, .tokens = 1, .emitted = 1};
  const struct lls_step_report report = {
      .size = sizeof report,
      .started_ns = bed->now_ns,
      .ended_ns = bed->now_ns + ms * MS,
      .n_results = 1,
      .results = &result,
  };
  bed->s->on_step(bed->scheduler_self, &report);
}

/* 30 ms of prefill, then decodes of 20 ms: levels 2 3 3 3 3 3 4. */
static void test_sinking(void **state)
{
  (void)state;
  static const uint32_t levels[] = {2, 3, 3, 3, 3, 3, 4};
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  const struct lls_live *r = submit(&bed, 30, 20);
  for (int i = 0; i < 7; i++) {
    serve(&bed, r, i == 0 ? 30 : 20);
    expect_level(&bed, 0, levels[i]);
  }
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* The lowest level is round robin. */
static void test_lowest_level(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("levels", "2", "max_seqs", "1");
  assert_int_equal(bed_open(&bed, &o), 0);
  const struct lls_live *a = submit(&bed, 250, 5);
  submit(&bed, 250, 5);
  expect_level(&bed, 0, 1);
  serve(&bed, a, 21); /* over 20 ms: after the other request */
  expect_level(&bed, 0, 1);
  expect_plan(&bed, "1:250"); /* 25 ms */
  expect_plan(&bed, "0:250");
  expect_plan(&bed, "1:1");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* A token takes 0.1 ms, level 0 has 10 ms: new requests run before old ones. */
static void test_new_ones_go_first(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1");
  o.prefill_ns = MS / 10;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 99, 30); /* joins level 0: prefill of 9.9 ms */
  expect_plan(&bed, "0:99");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "0:1"); /* 10.1 ms: level 1 */
  submit(&bed, 10, 2);
  expect_plan(&bed, "1:10");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "0:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

/* Invariant: a request is promoted only by starvation; then it is first. */
static void test_the_starving_rise(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("max_seqs", "1", "starve", "100ms", "period", "10");
  o.prefill_ns = MS / 10;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 200, 3); /* level 1 */
  uint32_t waited = 0;
  for (; waited < 200 && planned(&bed, 0) == 0; waited++) {
    submit(&bed, 40, 1); /* level 0, every step */
    bed_step(&bed);
    if (planned(&bed, 0) == 0)
      expect_level(&bed, 0, 1);
  }
  assert_in_range(waited, 100 / 5, 100 / 5 + 10); /* 100 ms of 5 ms each */
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* Only the first and the last of a long queue are promoted; those between when they
 * become first or last. */
static void test_the_ends_rise(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters =
      POLICY_PARAMETERS("max_seqs", "1", "starve", "100ms", "period", "10", "look", "2");
  o.prefill_ns = MS / 10;
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 3; i++)
    submit(&bed, 200, 3); /* level 1 */
  for (int i = 0; i < 200 && planned(&bed, 0) == 0; i++) {
    submit(&bed, 40, 1); /* level 0, every step */
    bed_step(&bed);
  }
  expect_level(&bed, 1, 1);
  expect_level(&bed, 2, 1);
  bed_finish(&bed, 300);
  bed_close(&bed);
}

/* The last request of the lowest level gives way to requests of a higher one. */
static void test_memory_is_taken_from_below(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 24; /* twelve blocks */
  o.host_units = 24;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("preempt", "swap", "watermark", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 90, 30); /* six blocks each, both on level 0 */
  submit(&bed, 90, 30);
  expect_plan(&bed, "0:90 1:90"); /* 19 ms: both on level 1 */
  submit(&bed, 40, 3);
  expect_plan(&bed, "-1 2:40 0:1");
  assert_int_equal(bed.preempted_swap, 1);
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  assert_int_equal(bed.copies[LLS_COPY_HOST_TO_DEVICE],
                   bed.copies[LLS_COPY_DEVICE_TO_HOST]);
  bed_close(&bed);
}

/* New requests are held back while less than a tenth of the host is free; requests on
 * the host are not. */
static void test_host_reserve(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 24;
  o.host_units = 12; /* space for one of six blocks */
  o.prefill_ns = MS / 10;
  o.scheduler.parameters = POLICY_PARAMETERS("preempt", "swap", "watermark", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 90, 30);
  submit(&bed, 90, 30);
  bed_step(&bed);
  submit(&bed, 40, 3);
  expect_plan(&bed, "-1 2:40 0:1");
  submit(&bed, 20, 3);
  for (int i = 0; i < 2; i++) {
    bed_step(&bed);
    assert_int_equal(planned(&bed, 3), 0); /* although it fits and is on level 0 */
  }
  bed_step(&bed); /* 2 has ended: 1 comes back, 3 can begin when it is */
  assert_int_equal(planned(&bed, 1), 1);
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
}

/* Long prompts, memory for three of them: if each new or starving request took
 * another's memory, that one would have to be prefilled again. */
static void test_nothing_is_thrown_away(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 54;
  o.prefill_ns = MS / 10;
  o.scheduler.parameters =
      POLICY_PARAMETERS("starve", "50ms", "period", "10", "watermark", "0");
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 8; i++) {
    submit(&bed, 100, 25);
    bed_step(&bed);
    bed_step(&bed);
  }
  bed_finish(&bed, 200);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 8);
  assert_in_range(bed.preempted_recompute, 0, 4); /* for growth */
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_join_levels),
      cmocka_unit_test(test_sinking),
      cmocka_unit_test(test_lowest_level),
      cmocka_unit_test(test_new_ones_go_first),
      cmocka_unit_test(test_the_starving_rise),
      cmocka_unit_test(test_the_ends_rise),
      cmocka_unit_test(test_memory_is_taken_from_below),
      cmocka_unit_test(test_host_reserve),
      cmocka_unit_test(test_nothing_is_thrown_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
