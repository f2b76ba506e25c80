/* SPDX-License-Identifier: Apache-2.0 */
/* Orca over both caches: how many fit, nobody is preempted, prompts and decodes in one
 * step. */
#include "t/tap.h"

#include "t/plugin/script.h"

/* Of these the second has Orca's own memory. */
static const char *const caches[] = {"paged", "contiguous"};

/* Both plugins reserve alike; paged has no such parameter. */
static void set_policies(struct fake_options *o, int cache,
                         const char *const *scheduler_parameters,
                         const char *const *reserve)
{
  o->scheduler.parameters = scheduler_parameters;
  o->cache = (struct harness_policy){caches[cache], cache == 1 ? reserve : NULL};
}

static const struct fake_options defaults = {
    .scheduler = {"orca", NULL},
    .block_tokens = 16,
    .device_units = 1966, /* 983 blocks: 15,728 tokens, OPT-13B in 12 GiB */
    .max_tokens = 1 << 16,
    .max_sequences = 64,
    .max_context = 2048,
    .max_requests = 64,
    .audit = true,
};

/* Requests of 300 tokens and 100 to come that run at once. */
static uint32_t how_many_run(int cache, const char *reserve, uint32_t n)
{
  struct fake f;
  struct fake_options o = defaults;
  set_policies(&o, cache, POLICY_PARAMETERS("reserve", reserve, "max_bs", "64"),
               POLICY_PARAMETERS("reserve", reserve));
  assert_int_equal(fake_open(&f, &o), 0);
  for (uint32_t i = 0; i < n; i++)
    submit(&f, 300, 100);
  uint32_t run = fake_step(&f);
  for (int i = 0; i < 50; i++)
    assert_int_equal(fake_step(&f), run); /* what was set aside suffices */
  fake_finish(&f, 2000);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], n);
  assert_int_equal(f.preempted_recompute, 0);
  fake_close(&f);
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
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler = (struct harness_policy){"fcfs", POLICY_PARAMETERS("max_tokens", "65536")};
  o.cache = (struct harness_policy){"paged", NULL};
  assert_int_equal(fake_open(&f, &o), 0);
  for (int i = 0; i < 50; i++)
    submit(&f, 400, 2);
  assert_int_equal(fake_step(&f), 38);
  fake_finish(&f, 50);
  fake_close(&f);
}

/* 8,192 slots, six requests of 2,048: four run, the fifth blocks. */
static void test_the_fifth_blocks(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct fake f;
    struct fake_options o = defaults;
    o.device_units = 1024;
    o.cache = (struct harness_policy){caches[c], NULL};
    assert_int_equal(fake_open(&f, &o), 0);
    for (int i = 0; i < 6; i++)
      submit(&f, 100, i == 1 ? 4 : 8);
    submit(&f, 1, 1);
    expect_plan(&f, "0:100 1:100 2:100 3:100");
    expect_plan(&f, "0:1 1:1 2:1 3:1");
    expect_plan(&f, "0:1 1:1 2:1 3:1");
    expect_plan(&f, "0:1 1:1 2:1 3:1"); /* 1 ends */
    expect_plan(&f, "0:1 2:1 3:1 4:100");
    fake_finish(&f, 50);
    fake_close(&f);
  }
}

static void test_batch_limit_and_never_fits(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct fake f;
    struct fake_options o = defaults;
    o.device_units = 40; /* 320 tokens */
    set_policies(&o, c, POLICY_PARAMETERS("max_bs", "2", "reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(fake_open(&f, &o), 0);
    submit(&f, 300, 50); /* 350 tokens are never there */
    submit(&f, 60, 3);
    submit(&f, 60, 2);
    submit(&f, 60, 2);
    expect_plan(&f, "x0 1:60 2:60");
    expect_plan(&f, "1:1 2:1");
    expect_plan(&f, "1:1 3:60");
    fake_finish(&f, 10);
    fake_close(&f);
  }
}

/* A prediction that was too short: more is set aside, at the newest one's cost. */
static void test_outgrown_reservations(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct fake f;
    struct fake_options o = defaults;
    o.device_units = 24; /* twelve blocks */
    set_policies(&o, c, POLICY_PARAMETERS("reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(fake_open(&f, &o), 0);
    f.next.predicted = 10;
    for (int i = 0; i < 3; i++)
      submit(&f, 38, 100); /* three blocks, and nine if all of it is needed */
    assert_int_equal(fake_step(&f), 3);
    fake_finish(&f, 1000);
    assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
    assert_true(f.preempted_recompute > 0);
    fake_close(&f);
  }
}

static uint32_t free_units(struct fake *f)
{
  struct lls_capacity capacity = {.size = sizeof capacity};
  f->c->capacity(f->cache_self, LLS_TIER_DEVICE, &capacity);
  return capacity.free_units;
}

/* 0 has outgrown its three blocks and may need nine: with as many for 1 all twelve are
 * set aside, and 2 waits although there is room for what it has now. */
static void test_outgrown_reservations_count(void **state)
{
  (void)state;
  for (int c = 0; c < 2; c++) {
    struct fake f;
    struct fake_options o = defaults;
    o.device_units = 24;
    set_policies(&o, c, POLICY_PARAMETERS("reserve", "oracle"),
                 POLICY_PARAMETERS("reserve", "oracle"));
    assert_int_equal(fake_open(&f, &o), 0);
    f.next.predicted = 10;
    submit(&f, 38, 100);
    expect_plan(&f, "0:38");
    for (int i = 0; i < 11; i++)
      expect_plan(&f, "0:1"); /* the last one is token 49: a fourth block */
    assert_int_equal(free_units(&f), c == 1 ? 6 : 16); /* a region is set aside whole */
    submit(&f, 38, 5);
    submit(&f, 38, 5);
    expect_plan(&f, "0:1 1:38");
    expect_plan(&f, "0:1 1:1");
    fake_finish(&f, 1000);
    assert_int_equal(f.preempted_recompute, 0);
    fake_close(&f);
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
