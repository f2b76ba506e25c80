/* SPDX-License-Identifier: Apache-2.0 */
/* First come, first served: the worked examples, and what happens at each limit. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct fake_options defaults = {
    .scheduler = {"fcfs", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit = true,
};

/* 12 blocks, prompts of 60, 50 and 40 tokens. */
static void open_ping_pong(struct fake *f, const char *watermark)
{
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", watermark);
  o.device_units = 24;
  assert_int_equal(fake_open(f, &o), 0);
  submit(f, 60, 100);
  submit(f, 50, 100);
  submit(f, 40, 100);
  expect_plan(f, "0:60 1:50 2:40");
  for (int i = 0; i < 4; i++)
    expect_plan(f, "0:1 1:1 2:1");
  expect_plan(f, "0:1 -2 1:1");
}

static void test_ping_pong_without_watermark(void **state)
{
  (void)state;
  struct fake f;
  open_ping_pong(&f, "0");
  expect_plan(&f, "2:45");
  expect_plan(&f, "-2 0:1 1:1");
  expect_plan(&f, "2:46"); /* a token for each prefill */
  fake_finish(&f, 2000);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
  fake_close(&f);
}

static void test_watermark_stops_the_ping_pong(void **state)
{
  (void)state;
  struct fake f;
  open_ping_pong(&f, "0.1"); /* floor(0.1 * 24) = 2 units: a block */
  for (int i = 0; i < 9; i++)
    expect_plan(&f, "0:1 1:1");
  fake_finish(&f, 2000);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
  fake_close(&f);
}

static void test_prefills_stop_at_max_tokens_and_max_seqs(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100", "max_seqs", "3");
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 60, 4);
  submit(&f, 40, 4);
  submit(&f, 10, 4);
  submit(&f, 10, 4);
  expect_plan(&f, "0:60 1:40"); /* 100 tokens */
  expect_plan(&f, "2:10");      /* three sequences */
  expect_plan(&f, "0:1 1:1 2:1");
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 4);
  fake_close(&f);
}

/* The head of the queue is not overtaken by one that would fit. */
static void test_head_of_line_blocks(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 20; /* ten blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 80, 20); /* five blocks */
  submit(&f, 96, 20); /* six */
  submit(&f, 16, 20); /* one */
  expect_plan(&f, "0:80");
  expect_plan(&f, "0:1");
  fake_finish(&f, 500);
  fake_close(&f);
}

static void test_longer_than_the_budget_runs_alone_in_chunks(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 50, 10);
  submit(&f, 250, 3);
  submit(&f, 30, 3);
  expect_plan(&f, "0:50");
  expect_plan(&f, "1:100");
  expect_plan(&f, "1:100");
  expect_plan(&f, "1:50");
  expect_plan(&f, "2:30");
  expect_plan(&f, "0:1 1:1 2:1");
  fake_finish(&f, 100);
  fake_close(&f);
}

static void test_engine_without_chunks_or_mixed_batches(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_tokens", "100");
  o.no_chunked_prefill = o.no_mixed_batch = true;
  o.max_tokens = 300;
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 250, 3); /* over the budget, but the engine can */
  submit(&f, 301, 3); /* the engine can't */
  submit(&f, 50, 3);
  expect_plan(&f, "0:250");
  expect_plan(&f, "x1 2:50");
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  assert_int_equal(f.finished[LLS_FINISH_CAPACITY], 1);
  fake_close(&f);
}

static void test_never_fits(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0.1");
  o.device_units = 20; /* ten blocks, one of them the watermark */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 145, 1);  /* ten blocks */
  submit(&f, 144, 50); /* nine: fits, and grows until all ten are full */
  expect_plan(&f, "x0 1:144");
  fake_finish(&f, 100);
  assert_int_equal(f.finished[LLS_FINISH_CAPACITY], 2);
  fake_close(&f);
}

static void open_swap(struct fake *f, uint32_t host_units)
{
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("preempt", "swap", "watermark", "0");
  o.device_units = 24;
  o.host_units = host_units;
  assert_int_equal(fake_open(f, &o), 0);
  submit(f, 60, 40);
  submit(f, 50, 40);
  submit(f, 40, 40);
  for (int i = 0; i < 5; i++)
    fake_step(f);
  submit(f, 10, 5);
  expect_plan(f, "3:10"); /* the last block */
  expect_plan(f, "-3 0:1 -2 1:1");
}

static void test_swap_brings_back_before_anything_new(void **state)
{
  (void)state;
  struct fake f;
  open_swap(&f, 24);
  assert_int_equal(f.preempted_swap, 2);
  submit(&f, 10, 5);
  while (f.copies[LLS_COPY_HOST_TO_DEVICE] == 0)
    fake_step(&f);
  const struct fake_request *last = fake_find(&f, 4);
  assert_int_equal(last->view.first_scheduled_ns, LLS_NEVER);
  fake_finish(&f, 500);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 5);
  assert_int_equal(f.copies[LLS_COPY_HOST_TO_DEVICE], f.copies[LLS_COPY_DEVICE_TO_HOST]);
  fake_close(&f);
}

/* Three blocks are free and 2, swapped out with 45 tokens, has three: it waits for a
 * fourth, or it would be swapped out again as soon as 0 or 1 grows. */
static void test_who_is_swapped_in_leaves_a_block_free(void **state)
{
  (void)state;
  struct fake f;
  open_swap(&f, 24);
  for (int i = 0; i < 5; i++)
    expect_plan(&f, "0:1 1:1");
  assert_int_equal(f.preempted_swap, 2);
  assert_int_equal(f.copies[LLS_COPY_HOST_TO_DEVICE], 0);
  fake_finish(&f, 500);
  fake_close(&f);
}

static void test_full_host_falls_back_to_recompute(void **state)
{
  (void)state;
  struct fake f;
  open_swap(&f, 2); /* room for the newest alone */
  assert_int_equal(f.preempted_swap, 1);
  assert_int_equal(f.preempted_recompute, 1);
  fake_finish(&f, 500);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 4);
  fake_close(&f);
}

/* A replayed log may say that it is that late. */
static void test_plans_at_the_end_of_time(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 1, 4);
  f.now_ns = INT64_MAX - 1200000; /* the fake goes on by 1 ms before it asks */
  expect_plan(&f, "0:1");
  assert_int_equal(f.plan.idle_until_ns, INT64_MAX);
  fake_close(&f);
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
