/* SPDX-License-Identifier: Apache-2.0 */
/* Orca with both caches: how many requests fit, that none is preempted, and prompts and
 * decodes in one step. */
#include "t/tap.h"

#include "t/plugin/script.h"

/* The second is Orca's own memory management. */
static const char *const caches[] = {"paged", "contiguous"};

/* Both policies reserve alike; paged has no such parameter. */
static void set_policies(struct bed_options *o, int cache,
                         const char *const *scheduler_parameters,
                         const char *const *reserve)
{
  o->scheduler.parameters = scheduler_parameters;
  o->cache = (struct harness_policy){caches[cache], cache == 1 ? reserve : NULL};
}

static const struct bed_options defaults = {
    .scheduler = {"orca", NULL},
    .block_tokens = 16,
    .device_units = 1966, /* 983 blocks: 15,728 tokens, OPT-13B in 12 GiB */
    .max_tokens = 1 << 16,
    .max_sequences = 64,
    .max_context = 2048,
    .max_requests = 64,
    .audit_every = 1,
};

/* Returns how many requests of 300 tokens and 100 to come run at once. */
static uint32_t how_many_run(int cache, const char *reserve, uint32_t n)
{
  struct bed bed;
  struct bed_options o = defaults;
  set_policies(&o, cache, POLICY_PARAMETERS("reserve", reserve, "max_bs", "64"),
               POLICY_PARAMETERS("reserve", reserve));
  assert_int_equal(bed_open(&bed, &o), 0);
  for (uint32_t i = 0; i < n; i++)
    submit(&bed, 300, 100);
  uint32_t run = bed_step(&bed);
  for (int i = 0; i < 50; i++)
    assert_int_equal(bed_step(&bed), run); /* the reserved memory suffices */
  bed_finish(&bed, 2000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], n);
  assert_int_equal(bed.preempted_recompute, 0);
  bed_close(&bed);
  return run;
}

/* 15,728 tokens hold 7 reservations of 2048, 30 of 512 (the power of two
 * above 400), 39 of 400. */
static void test_reservations_that_fit(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    assert_int_equal(how_many_run(c, "max", 20), 7);
    assert_int_equal(how_many_run(c, "pow2", 40), 30);
    assert_int_equal(how_many_run(c, "oracle", 60), 39);
  }
}

/* The same memory in pages: 38 prompts of 400 tokens above a watermark of 1 %. */
static void test_pages_hold_more(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler = (struct harness_policy){"fcfs", POLICY_PARAMETERS("max_tokens", "65536")};
  o.cache = (struct harness_policy){"paged", NULL};
  assert_int_equal(bed_open(&bed, &o), 0);
  for (int i = 0; i < 50; i++)
    submit(&bed, 400, 2);
  assert_int_equal(bed_step(&bed), 38);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* 8,192 slots, six requests of 2,048: four run, the fifth blocks the queue. */
static void test_the_fifth_blocks(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 1024;
    o.cache = (struct harness_policy){caches[c], NULL};
    assert_int_equal(bed_open(&bed, &o), 0);
    for (int i = 0; i < 6; i++)
      submit(&bed, 100, i == 1 ? 4 : 8);
    submit(&bed, 1, 1);
    expect_plan(&bed, "0:100 1:100 2:100 3:100");
    expect_plan(&bed, "0:1 1:1 2:1 3:1");
    expect_plan(&bed, "0:1 1:1 2:1 3:1");
    expect_plan(&bed, "0:1 1:1 2:1 3:1"); /* 1 ends */
    expect_plan(&bed, "0:1 2:1 3:1 4:100");
    bed_finish(&bed, 50);
    bed_close(&bed);
  }
}

static void test_batch_limit_and_never_fits(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 40; /* 320 tokens */
    set_policies(&o, c, POLICY_PARAMETERS("max_bs", "2", "reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(bed_open(&bed, &o), 0);
    submit(&bed, 300, 50); /* 350 tokens never fit */
    submit(&bed, 60, 3);
    submit(&bed, 60, 2);
    submit(&bed, 60, 2);
    expect_plan(&bed, "x0 1:60 2:60");
    expect_plan(&bed, "1:1 2:1");
    expect_plan(&bed, "1:1 3:60");
    bed_finish(&bed, 10);
    bed_close(&bed);
  }
}

/* A prediction that was too short: more is reserved, at the expense of the newest
 * request. */
static void test_outgrown_reservations(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 24; /* twelve blocks */
    set_policies(&o, c, POLICY_PARAMETERS("reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(bed_open(&bed, &o), 0);
    bed.next.predicted = 10;
    for (int i = 0; i < 3; i++)
      submit(&bed, 38, 100); /* three blocks, and nine if all of it is needed */
    assert_int_equal(bed_step(&bed), 3);
    bed_finish(&bed, 1000);
    assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
    assert_true(bed.preempted_recompute > 0);
    bed_close(&bed);
  }
}

static uint32_t free_units(struct bed *bed)
{
  struct lls_capacity capacity = {.size = sizeof capacity};
  bed->c->capacity(bed->cache_self, LLS_TIER_DEVICE, &capacity);
  return capacity.free_units;
}

/* 0 has outgrown its three blocks and may need nine. With as many for 1 all twelve are
 * reserved, so 2 waits although its present tokens would fit. */
static void test_outgrown_reservations_count(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.device_units = 24;
    set_policies(&o, c, POLICY_PARAMETERS("reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(bed_open(&bed, &o), 0);
    bed.next.predicted = 10;
    submit(&bed, 38, 100);
    expect_plan(&bed, "0:38");
    for (int i = 0; i < 11; i++)
      expect_plan(&bed, "0:1"); /* the last one is token 49: a fourth block */
    /* a region is reserved as a whole */
    assert_int_equal(free_units(&bed), c == 1 ? 6 : 16);
    submit(&bed, 38, 5);
    submit(&bed, 38, 5);
    expect_plan(&bed, "0:1 1:38");
    expect_plan(&bed, "0:1 1:1");
    bed_finish(&bed, 1000);
    assert_int_equal(bed.preempted_recompute, 0);
    bed_close(&bed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reservations_that_fit),
      cmocka_unit_test(test_pages_hold_more),
      cmocka_unit_test(test_the_fifth_blocks),
      cmocka_unit_test(test_batch_limit_and_never_fits),
      cmocka_unit_test(test_outgrown_reservations),
      cmocka_unit_test(test_outgrown_reservations_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
