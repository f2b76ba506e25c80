/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic SplitFuse: steps of one size, a prompt only if all of it fits, flushing. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct fake_options defaults = {
    .scheduler = {"fastgen", (const char *const[]){"budget", "512", NULL}},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 2000,
    .max_tokens = 4096,
    .max_sequences = 128,
    .max_context = 2048,
    .max_requests = 128,
    .audit = true,
};

static void test_worked_example(void **state)
{
  (void)state;
  expect_cut_prompts(&defaults);
}

/* With ten free blocks of 64, A (19 needed) blocks B (5). */
static void test_a_prompt_that_does_not_fit_blocks_the_next(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("budget", "4096");
  o.block_tokens = 64;
  o.device_units = 60; /* thirty blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 1270, 5); /* twenty blocks */
  expect_plan(&f, "0:1270");
  submit(&f, 1200, 5);
  submit(&f, 300, 5);
  for (int i = 0; i < 4; i++)
    expect_plan(&f, "0:1");
  expect_plan(&f, "1:1200 2:300");
  fake_finish(&f, 50);
  fake_close(&f);
}

/* Who can't grow is passed over and keeps its memory. */
static void test_who_cannot_grow_is_skipped(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 8; /* four blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 32, 3);
  submit(&f, 30, 20);
  expect_plan(&f, "0:32 1:30");
  expect_plan(&f, "1:1");
  expect_plan(&f, "1:1");
  fake_finish(&f, 50);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 2);
  fake_close(&f);
}

/* Nobody can grow: the last is flushed and goes behind who came after it. */
static void test_flushed_goes_to_the_back(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.device_units = 8;
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 32, 3);
  submit(&f, 32, 3);
  expect_plan(&f, "0:32 1:32");
  submit(&f, 33, 3);
  expect_plan(&f, "-1 0:1"); /* one free block left: neither 2 nor 1 fits */
  expect_plan(&f, "0:1");
  expect_plan(&f, "2:33");
  assert_true(dumps(&f, "group 0 request 1"));
  fake_finish(&f, 50);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
  assert_int_equal(f.preempted_recompute, 1);
  fake_close(&f);
}

/* No piece of a prompt runs unless the rest fits at that moment. */
static void test_cut_prompts_always_fit(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("budget", "50");
  o.device_units = 60;
  assert_int_equal(fake_open(&f, &o), 0);
  for (int i = 0; i < 12; i++)
    submit(&f, 20 + 30 * (uint32_t)(i % 5), 30);
  for (int steps = 0; fake_alive(&f) > 0 && steps < 2000; steps++) {
    struct lls_capacity free = {.size = sizeof free};
    f.c->capacity(f.cache_self, LLS_TIER_DEVICE, &free);
    fake_step(&f);
    uint32_t used = 0;
    for (uint32_t i = 0; i < f.plan.n_items; i++)
      used += f.plan.items[i].tokens;
    assert_true(used <= 50);
    for (uint32_t i = 0; i < f.plan.n_items; i++) {
      const struct fake_request *r = fake_find(&f, f.plan.items[i].request);
      if (r == NULL || r->view.state != LLS_PREFILLING)
        continue;
      uint32_t held = (r->view.cached_tokens - f.plan.items[i].tokens + 15) / 16;
      assert_true(2 * ((lls_request_length(&r->view) + 15) / 16 - held) <=
                  free.free_units);
    }
  }
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 12);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_worked_example),
      cmocka_unit_test(test_a_prompt_that_does_not_fit_blocks_the_next),
      cmocka_unit_test(test_who_cannot_grow_is_skipped),
      cmocka_unit_test(test_flushed_goes_to_the_back),
      cmocka_unit_test(test_cut_prompts_always_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
