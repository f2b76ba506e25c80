/* SPDX-License-Identifier: Apache-2.0 */
/* Round robin: the turns, and whose memory is taken. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct fake_options defaults = {
    .scheduler = {"rr", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit = true,
};

static void submit_class(struct fake *f, uint32_t request_class, uint32_t length,
                         uint32_t output)
{
  f->next.request_class = request_class;
  submit(f, length, output);
}

/* RT, BE, RT, BE; who says nothing counts as RT. */
static void test_classes_alternate(void **state)
{
  (void)state;
  struct fake f;
  assert_int_equal(fake_open(&f, &defaults), 0);
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 20, 4);
  submit_class(&f, LLS_CLASS_REALTIME, 30, 4);
  submit_class(&f, LLS_CLASS_NONE, 40, 4);
  expect_plan(&f, "1:30 2:40");
  expect_plan(&f, "0:20");
  expect_plan(&f, "1:1 2:1");
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 10, 4);
  expect_plan(&f, "0:1 3:10"); /* who runs goes on, then who is new */
  expect_plan(&f, "1:1 2:1");
  expect_plan(&f, "0:1 3:1");
  fake_finish(&f, 50);
  fake_close(&f);
}

/* Only BE: BE, BE. Afterwards the turns go on as if there had been two. */
static void test_one_class_runs_every_step(void **state)
{
  (void)state;
  struct fake f;
  assert_int_equal(fake_open(&f, &defaults), 0);
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 20, 9);
  expect_plan(&f, "0:20");
  expect_plan(&f, "0:1");
  expect_plan(&f, "0:1");
  submit_class(&f, LLS_CLASS_REALTIME, 30, 2);
  expect_plan(&f, "0:1"); /* the turn of BE */
  expect_plan(&f, "1:30");
  expect_plan(&f, "0:1");
  expect_plan(&f, "1:1");
  expect_plan(&f, "0:1");
  expect_plan(&f, "0:1");
  fake_finish(&f, 50);
  fake_close(&f);
}

static void test_turns_of_several_steps(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("quantum_iters", "2", "max_batch", "1");
  assert_int_equal(fake_open(&f, &o), 0);
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 20, 4);
  submit_class(&f, LLS_CLASS_REALTIME, 30, 4);
  submit_class(&f, LLS_CLASS_REALTIME, 30, 4);
  expect_plan(&f, "1:30");
  expect_plan(&f, "1:1");
  expect_plan(&f, "0:20");
  expect_plan(&f, "0:1");
  expect_plan(&f, "1:1");
  expect_plan(&f, "1:1"); /* ends */
  expect_plan(&f, "0:1");
  expect_plan(&f, "0:1");
  expect_plan(&f, "2:30");
  fake_finish(&f, 50);
  fake_close(&f);
}

/* The other class's newest gives way, however old it is; then the own class's. */
static void test_the_other_class_gives_way_first(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0");
  o.device_units = 16; /* eight blocks */
  assert_int_equal(fake_open(&f, &o), 0);
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 31, 40); /* two blocks */
  submit_class(&f, LLS_CLASS_BEST_EFFORT, 31, 40);
  submit_class(&f, LLS_CLASS_REALTIME, 32, 40);
  submit_class(&f, LLS_CLASS_REALTIME, 32, 40);
  expect_plan(&f, "2:32 3:32");
  expect_plan(&f, "0:31 1:31");
  expect_plan(&f, "-1 2:1 3:1"); /* both into its two blocks */
  expect_plan(&f, "0:1");
  expect_plan(&f, "2:1 3:1");
  expect_plan(&f, "-3 0:1"); /* its 33rd token takes a third block */
  fake_finish(&f, 500);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 4);
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_classes_alternate),
      cmocka_unit_test(test_one_class_runs_every_step),
      cmocka_unit_test(test_turns_of_several_steps),
      cmocka_unit_test(test_the_other_class_gives_way_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
