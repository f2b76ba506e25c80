/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worth where memory or seats are short: best effort gives way, its streams return first,
 * no stream stands still for long, and who leaves soon passes who waits for memory.
 */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"worth", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 4000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 2048,
    .max_requests = 128,
    .prefill_ns = MS / 10,
    .audit_every = 1,
};

/* A real-time prompt takes memory from best effort, not from another real-time
 * stream. */
static void test_best_effort_gives_way(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 80; /* 40 blocks of 16 tokens */
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.request_class = LLS_CLASS_BEST_EFFORT;
  submit(&bed, 500, 30);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 0), 500);
  bed.next.request_class = LLS_CLASS_REALTIME;
  bed.next.slo = (struct lls_slo){2000 * MS, 200 * MS, LLS_NEVER, LLS_NEVER};
  submit(&bed, 400, 5);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 400);
  assert_int_equal(bed.preempted_recompute, 1);
  submit(&bed, 500, 5); /* it waits for the stream of its own class */
  bed_step(&bed);
  assert_int_equal(planned(&bed, 2), 0);
  bed_finish(&bed, 300);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  assert_int_equal(bed.preempted_recompute, 1);
  bed_close(&bed);
}

/* In best effort, a prompt whose completion deadline can be kept takes memory from a
 * stream without one, not from a stream with one. */
static void test_best_effort_that_has_an_end(void **state)
{
  (void)state;
  for (int named = 0; named < 2; named++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 80; /* 40 blocks of 16 tokens */
    assert_int_equal(bed_open(&bed, &o), 0);
    bed.next.request_class = LLS_CLASS_BEST_EFFORT;
    if (named)
      bed.next.slo.completion_ns = 5000 * MS;
    submit(&bed, 500, 30);
    bed_step(&bed);
    bed.next.slo.completion_ns = 2000 * MS;
    submit(&bed, 400, 5);
    bed_step(&bed);
    assert_int_equal(planned(&bed, 1), named ? 0 : 400);
    bed_finish(&bed, 300);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
    bed_close(&bed);
  }
}

/* Four seats, which streams hold as long as their answers take, and more requests than
 * seats: a due request is given a seat in time, and does not rely on one becoming free
 * at the last moment. */
static void test_seats_are_waited_for(void **state)
{
  (void)state;
  for (int64_t ttft = 120; ttft < 300; ttft += 7) {
    struct bed bed;
    struct bed_options o = defaults;
    o.max_sequences = 4;
    assert_int_equal(bed_open(&bed, &o), 0);
    for (int i = 0; i < 60; i++)
      submit(&bed, 8, 20 + (uint32_t)i % 9);
    while (bed.finished[LLS_FINISH_LENGTH] < 8)
      bed_step(&bed);
    bed.next.slo.ttft_ns = ttft * MS;
    const struct lls_live *due = submit(&bed, 100, 2);
    while (due->view.generated_tokens == 0)
      bed_step(&bed);
    assert_true(due->view.last_token_ns - due->view.arrival_ns <= ttft * MS);
    bed_finish(&bed, 2000);
    bed_close(&bed);
  }
}

/* Two streams outgrow the memory, without gap deadlines: the one with most tokens left
 * gives way, since no memory was kept for either. With gap deadlines the last to arrive
 * does. */
static void test_most_left_gives_way(void **state)
{
  (void)state;
  for (int asks = 0; asks < 2; asks++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 80; /* 40 blocks of 16 tokens */
    assert_int_equal(bed_open(&bed, &o), 0);
    if (asks)
      bed.next.slo.tbt_ns = 200 * MS;
    const struct lls_live *first = submit(&bed, 400, 100);
    bed_step(&bed);
    const struct lls_live *last = submit(&bed, 208, 20);
    while (bed.preempted_recompute == 0 && bed.finished[LLS_FINISH_LENGTH] == 0)
      bed_step(&bed);
    assert_true((first->view.state == LLS_DECODING) == (asks == 1));
    assert_true((last->view.state == LLS_DECODING) == (asks == 0));
    bed_finish(&bed, 300);
    bed_close(&bed);
  }
}

/* Two streams outgrow the memory: neither waits longer than max_stall, although the
 * other has a second to go. */
static void test_no_stream_stands_still_for_long(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 80; /* 40 blocks of 16 tokens */
  o.scheduler.parameters = POLICY_PARAMETERS("max_stall", "300ms");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 310, 90);
  submit(&bed, 310, 90);
  int64_t since[2] = {0}, longest = 0;
  for (int step = 0; step < 130 && bed.finished[LLS_FINISH_LENGTH] == 0; step++) {
    bed_step(&bed);
    bed.now_ns += 20 * MS;
    for (uint64_t i = 0; i < 2; i++) {
      if (planned(&bed, i) > 0 || step == 0)
        since[i] = bed.now_ns;
      longest = bed.now_ns - since[i] > longest ? bed.now_ns - since[i] : longest;
    }
  }
  assert_true(bed.preempted_recompute > 0);
  assert_true(longest <= 300 * MS);
  bed_finish(&bed, 300);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  bed_close(&bed);
}
/* Behind a prompt that waits for memory, an answer of two tokens does not wait, one of
 * 200 does. */
static void test_brief_answers_do_not_wait(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 80; /* 40 blocks of 16 tokens */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 400, 60);
  bed_step(&bed);
  submit(&bed, 400, 30);
  bed.now_ns += 20 * MS;
  submit(&bed, 40, 200);
  submit(&bed, 40, 2);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 1), 0);
  assert_int_equal(planned(&bed, 2), 0);
  assert_int_equal(planned(&bed, 3), 40);
  bed_finish(&bed, 500);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
}

/* A prompt needs nearly all of the memory, and brief requests come without end: the
 * prompt begins all the same. */
static void test_brief_answers_do_not_pass_for_ever(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 80; /* 40 blocks of 16 tokens */
  assert_int_equal(bed_open(&bed, &o), 0);
  uint32_t submitted = 0, steps = 0;
  for (; submitted < 10; submitted++)
    submit(&bed, 40, 20 + submitted % 4);
  bed_step(&bed);
  const struct lls_live *waiting = submit(&bed, 600, 3);
  for (; steps < 2000 && waiting->view.generated_tokens == 0; steps++) {
    for (; submitted - bed.finished[LLS_FINISH_LENGTH] < 40; submitted++)
      submit(&bed, 40, 2 + submitted % 4);
    bed_step(&bed);
  }
  assert_in_range(steps, 20, 1999);
  assert_true(submitted > 100);
  bed_finish(&bed, 2000);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_best_effort_gives_way),
      cmocka_unit_test(test_best_effort_that_has_an_end),
      cmocka_unit_test(test_seats_are_waited_for),
      cmocka_unit_test(test_most_left_gives_way),
      cmocka_unit_test(test_no_stream_stands_still_for_long),
      cmocka_unit_test(test_brief_answers_do_not_wait),
      cmocka_unit_test(test_brief_answers_do_not_pass_for_ever),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
