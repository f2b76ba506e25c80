/* SPDX-License-Identifier: Apache-2.0 */
/* First come, first served: the worked examples, and the effect of each limit. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"fcfs", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit_every = 1,
};

/* 12 blocks, prompts of 60, 50 and 40 tokens. */
static void open_ping_pong(struct bed *bed, const char *watermark)
{
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", watermark);
  o.device_units = 24;
  assert_int_equal(bed_open(bed, &o), 0);
  submit(bed, 60, 100);
  submit(bed, 50, 100);
  submit(bed, 40, 100);
  expect_plan(bed, "0:60 1:50 2:40");
  for (int i = 0; i < 4; i++)
    expect_plan(bed, "0:1 1:1 2:1");
  expect_plan(bed, "0:1 -2 1:1");
}

static void test_ping_pong_without_watermark(void **state)
{
  (void)state;
  struct bed bed;
  open_ping_pong(&bed, "0");
  expect_plan(&bed, "2:45");
  expect_plan(&bed, "-2 0:1 1:1");
  expect_plan(&bed, "2:46"); /* a token for each prefill */
  bed_finish(&bed, 2000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

static void test_watermark_stops_the_ping_pong(void **state)
{
  (void)state;
  struct bed bed;
  open_ping_pong(&bed, "0.1"); /* floor(0.1 * 24) = 2 units: a block */
  for (int i = 0; i < 9; i++)
    expect_plan(&bed, "0:1 1:1");
  bed_finish(&bed, 2000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

static void test_prefills_stop_at_max_tokens_and_max_seqs(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100", "max_seqs", "3");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 60, 4);
  submit(&bed, 40, 4);
  submit(&bed, 10, 4);
  submit(&bed, 10, 4);
  expect_plan(&bed, "0:60 1:40"); /* 100 tokens */
  expect_plan(&bed, "2:10");      /* three sequences */
  expect_plan(&bed, "0:1 1:1 2:1");
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
}

/* A request that would fit does not overtake the first in the queue. */
static void test_head_of_line_blocks(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.device_units = 20; /* ten blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 80, 20); /* five blocks */
  submit(&bed, 96, 20); /* six */
  submit(&bed, 16, 20); /* one */
  expect_plan(&bed, "0:80");
  expect_plan(&bed, "0:1");
  bed_finish(&bed, 500);
  bed_close(&bed);
}

static void test_longer_than_the_budget_runs_alone_in_chunks(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 50, 10);
  submit(&bed, 250, 3);
  submit(&bed, 30, 3);
  expect_plan(&bed, "0:50");
  expect_plan(&bed, "1:100");
  expect_plan(&bed, "1:100");
  expect_plan(&bed, "1:50");
  expect_plan(&bed, "2:30");
  expect_plan(&bed, "0:1 1:1 2:1");
  bed_finish(&bed, 100);
  bed_close(&bed);
}

static void test_engine_without_chunks_or_mixed_batches(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  o.no_chunked_prefill = o.no_mixed_batch = true;
  o.max_tokens = 300;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 250, 3); /* over the budget, but the engine can */
  submit(&bed, 301, 3); /* the engine can't */
  submit(&bed, 50, 3);
  expect_plan(&bed, "0:250");
  expect_plan(&bed, "x1 2:50");
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(bed.finished[LLS_FINISH_CAPACITY], 1);
  bed_close(&bed);
}

static void test_never_fits(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0.1");
  o.device_units = 20; /* ten blocks, one of them the watermark */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 145, 1);  /* ten blocks */
  submit(&bed, 144, 50); /* nine: fits, and grows until all ten are full */
  expect_plan(&bed, "x0 1:144");
  bed_finish(&bed, 100);
  assert_int_equal(bed.finished[LLS_FINISH_CAPACITY], 2);
  bed_close(&bed);
}

static void open_swap(struct bed *bed, uint32_t host_units)
{
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("preempt", "swap", "watermark", "0");
  o.device_units = 24;
  o.host_units = host_units;
  assert_int_equal(bed_open(bed, &o), 0);
  submit(bed, 60, 40);
  submit(bed, 50, 40);
  submit(bed, 40, 40);
  for (int i = 0; i < 5; i++)
    bed_step(bed);
  submit(bed, 10, 5);
  expect_plan(bed, "3:10"); /* the last block */
  expect_plan(bed, "-3 0:1 -2 1:1");
}

static void test_swap_brings_back_before_anything_new(void **state)
{
  (void)state;
  struct bed bed;
  open_swap(&bed, 24);
  assert_int_equal(bed.preempted_swap, 2);
  submit(&bed, 10, 5);
  while (bed.copies[LLS_COPY_HOST_TO_DEVICE] == 0)
    bed_step(&bed);
  const struct lls_live *last = bed_numbered(&bed, 4);
  assert_int_equal(last->view.first_scheduled_ns, LLS_NEVER);
  bed_finish(&bed, 500);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 5);
  assert_int_equal(bed.copies[LLS_COPY_HOST_TO_DEVICE],
                   bed.copies[LLS_COPY_DEVICE_TO_HOST]);
  bed_close(&bed);
}

/* Three blocks are free, and 2, swapped out with 45 tokens, has three: it waits for a
 * fourth block, because it would be swapped out again as soon as 0 or 1 grows. */
static void test_who_is_swapped_in_leaves_a_block_free(void **state)
{
  (void)state;
  struct bed bed;
  open_swap(&bed, 24);
  for (int i = 0; i < 5; i++)
    expect_plan(&bed, "0:1 1:1");
  assert_int_equal(bed.preempted_swap, 2);
  assert_int_equal(bed.copies[LLS_COPY_HOST_TO_DEVICE], 0);
  bed_finish(&bed, 500);
  bed_close(&bed);
}

static void test_full_host_falls_back_to_recompute(void **state)
{
  (void)state;
  struct bed bed;
  open_swap(&bed, 2); /* space for the newest only */
  assert_int_equal(bed.preempted_swap, 1);
  assert_int_equal(bed.preempted_recompute, 1);
  bed_finish(&bed, 500);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
}

/* A replayed log may contain such a late time. */
static void test_plans_at_the_end_of_time(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 1, 4);
  bed.now_ns = INT64_MAX - 1200000; /* the bed advances by 1 ms before it steps */
  expect_plan(&bed, "0:1");
  assert_int_equal(bed.plan.idle_until_ns, INT64_MAX);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ping_pong_without_watermark),
      cmocka_unit_test(test_watermark_stops_the_ping_pong),
      cmocka_unit_test(test_prefills_stop_at_max_tokens_and_max_seqs),
      cmocka_unit_test(test_head_of_line_blocks),
      cmocka_unit_test(test_longer_than_the_budget_runs_alone_in_chunks),
      cmocka_unit_test(test_engine_without_chunks_or_mixed_batches),
      cmocka_unit_test(test_never_fits),
      cmocka_unit_test(test_swap_brings_back_before_anything_new),
      cmocka_unit_test(test_who_is_swapped_in_leaves_a_block_free),
      cmocka_unit_test(test_full_host_falls_back_to_recompute),
      cmocka_unit_test(test_plans_at_the_end_of_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
