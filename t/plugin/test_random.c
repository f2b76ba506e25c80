/* SPDX-License-Identifier: Apache-2.0 */
/* Random order: repeatable, even, and vLLM's otherwise. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct fake_options defaults = {
    .scheduler = {"random", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit = true,
};

static void append(char *text, size_t size, const char *line)
{
  size_t n = strlen(text);
  snprintf(text + n, size - n, "%s\n", line);
}

/* Plans of a few requests that run one at a time, as text. */
static void record(const struct fake_options *o, char *text, size_t size)
{
  struct fake f;
  assert_int_equal(fake_open(&f, o), 0);
  for (int i = 0; i < 8; i++)
    submit(&f, 10, 2);
  text[0] = '\0';
  while (fake_alive(&f) > 0) {
    char plan[256];
    fake_step(&f);
    append(text, size, fake_plan_text(&f, plan, sizeof plan));
  }
  fake_close(&f);
}

/* Same seed, same trace. */
static void test_same_seed_same_order(void **state)
{
  (void)state;
  char first[1024], again[1024], other[1024];
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1");
  o.seed = 5;
  record(&o, first, sizeof first);
  record(&o, again, sizeof again);
  o.seed = 6;
  record(&o, other, sizeof other);
  assert_string_equal(first, again);
  assert_string_not_equal(first, other);
}

static void test_draws_from_its_stream(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1", "stream", "3");
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 10, 1);
  submit(&f, 10, 1);
  fake_step(&f);
  assert_int_equal(f.streams, 1u << 3);
  fake_close(&f);
}

/* Who is first of four: each a quarter of 800 times, +- four standard deviations (12). */
static void test_all_are_drawn_equally_often(void **state)
{
  (void)state;
  uint32_t first[4] = {0};
  for (uint64_t seed = 0; seed < 800; seed++) {
    struct fake f;
    struct fake_options o = defaults;
    o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1");
    o.seed = seed;
    assert_int_equal(fake_open(&f, &o), 0);
    for (int i = 0; i < 4; i++)
      submit(&f, 10, 1);
    fake_step(&f);
    first[f.plan.items[0].request]++;
    fake_close(&f);
  }
  for (int i = 0; i < 4; i++)
    assert_in_range(first[i], 150, 250);
}

/* With one waiting request it is fcfs. */
static void test_one_at_a_time_is_fcfs(void **state)
{
  (void)state;
  static const char *const names[] = {"random", "fcfs"};
  char plans[2][4096];
  for (int i = 0; i < 2; i++) {
    struct fake f;
    struct fake_options o = defaults;
    o.scheduler.name = names[i];
    o.device_units = 16;
    assert_int_equal(fake_open(&f, &o), 0);
    plans[i][0] = '\0';
    for (int step = 0; step < 60; step++) {
      char plan[256];
      if (step % 20 == 0)
        submit(&f, 50, 17);
      fake_step(&f);
      append(plans[i], sizeof plans[i], fake_plan_text(&f, plan, sizeof plan));
    }
    fake_close(&f);
  }
  assert_string_equal(plans[0], plans[1]);
}

static void test_misfits_stop_or_are_skipped(void **state)
{
  (void)state;
  for (int skip = 0; skip < 2; skip++)
    for (uint64_t seed = 0; seed < 20; seed++) {
      struct fake f;
      struct fake_options o = defaults;
      o.device_units = 20; /* ten blocks */
      o.seed = seed;
      o.scheduler.parameters =
          POLICY_PARAMETERS("on_misfit", skip ? "skip" : "stop", "watermark", "0");
      assert_int_equal(fake_open(&f, &o), 0);
      for (int i = 0; i < 5; i++)
        submit(&f, i == 0 ? 140 : 48, 1); /* nine blocks, and three */
      uint32_t ran = fake_step(&f);
      bool big_one = planned(&f, 0) > 0;
      /* three small ones fit, unless the big one stops the walk before */
      assert_true(big_one ? ran == 1 : skip ? ran == 3 : ran <= 3);
      fake_finish(&f, 50);
      assert_int_equal(f.finished[LLS_FINISH_LENGTH], 5);
      fake_close(&f);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_seed_same_order),
      cmocka_unit_test(test_draws_from_its_stream),
      cmocka_unit_test(test_all_are_drawn_equally_often),
      cmocka_unit_test(test_one_at_a_time_is_fcfs),
      cmocka_unit_test(test_misfits_stop_or_are_skipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
