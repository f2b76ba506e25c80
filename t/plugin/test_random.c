/* SPDX-License-Identifier: Apache-2.0 */
/* Random order: repeatable, uniform, and otherwise like vLLM's. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"random", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit_every = 1,
};

static void append(char *text, size_t size, const char *line)
{
  size_t n = strlen(text);
  snprintf(text + n, size - n, "%s\n", line);
}

/* Writes the plans of a few requests that run one at a time as text. */
static void record(const struct bed_options *o, char *text, size_t size)
{
  struct bed bed;
  assert_int_equal(bed_open(&bed, o), 0);
  for (int i = 0; i < 8; i++)
    submit(&bed, 10, 2);
  text[0] = '\0';
  while (bed_alive(&bed) > 0) {
    char plan[256];
    bed_step(&bed);
    append(text, size, bed_plan_text(&bed, plan, sizeof plan));
  }
  bed_close(&bed);
}

/* Same seed, same trace. */
static void test_same_seed_same_order(void **state)
{
  (void)state;
  char first[1024], again[1024], other[1024];
  struct bed_options o = defaults;
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
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1", "stream", "3");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 10, 1);
  submit(&bed, 10, 1);
  const uint64_t *streams = bed.in->policies.scheduler.host->random_state;
  uint64_t before[LLS_RANDOM_STREAMS];
  memcpy(before, streams, sizeof before);
  bed_step(&bed);
  for (uint32_t i = 0; i < LLS_RANDOM_STREAMS; i++)
    assert_int_equal(streams[i] != before[i], i == 3);
  bed_close(&bed);
}

/* Each of four requests is first in a quarter of 800 runs, +- four standard deviations
 * (12). */
static void test_all_are_drawn_equally_often(void **state)
{
  (void)state;
  uint32_t first[4] = {0};
  for (uint64_t seed = 0; seed < 800; seed++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.scheduler.parameters = POLICY_PARAMETERS("max_seqs", "1");
    o.seed = seed;
    assert_int_equal(bed_open(&bed, &o), 0);
    for (int i = 0; i < 4; i++)
      submit(&bed, 10, 1);
    bed_step(&bed);
    first[bed_number(&bed, bed.plan.items[0].request)]++;
    bed_close(&bed);
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
    struct bed bed;
    struct bed_options o = defaults;
    o.scheduler.name = names[i];
    o.device_units = 16;
    assert_int_equal(bed_open(&bed, &o), 0);
    plans[i][0] = '\0';
    for (int step = 0; step < 60; step++) {
      char plan[256];
      if (step % 20 == 0)
        submit(&bed, 50, 17);
      bed_step(&bed);
      append(plans[i], sizeof plans[i], bed_plan_text(&bed, plan, sizeof plan));
    }
    bed_close(&bed);
  }
  assert_string_equal(plans[0], plans[1]);
}

static void test_misfits_stop_or_are_skipped(void **state)
{
  (void)state;
  for (int skip = 0; skip < 2; skip++)
    for (uint64_t seed = 0; seed < 20; seed++) {
      struct bed bed;
      struct bed_options o = defaults;
      o.device_units = 20; /* ten blocks */
      o.seed = seed;
      o.scheduler.parameters =
          POLICY_PARAMETERS("on_misfit", skip ? "skip" : "stop", "watermark", "0");
      assert_int_equal(bed_open(&bed, &o), 0);
      for (int i = 0; i < 5; i++)
        submit(&bed, i == 0 ? 140 : 48, 1); /* nine blocks, and three */
      uint32_t ran = bed_step(&bed);
      bool big_one = planned(&bed, 0) > 0;
      /* the three small ones fit, unless the large one ends the walk before them */
      assert_true(big_one ? ran == 1 : skip ? ran == 3 : ran <= 3);
      bed_finish(&bed, 50);
      assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 5);
      bed_close(&bed);
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
