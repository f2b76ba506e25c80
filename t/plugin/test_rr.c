/* SPDX-License-Identifier: Apache-2.0 */
/* Round robin: the turns, and evictions. */
#include "t/tap.h"

#include "t/plugin/script.h"

static const struct bed_options defaults = {
    .scheduler = {"rr", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 16,
    .device_units = 200,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .audit_every = 1,
};

static void submit_class(struct bed *bed, uint32_t request_class, uint32_t length,
                         uint32_t output)
{
  bed->next.request_class = request_class;
  submit(bed, length, output);
}

/* RT, BE, RT, BE; a request without a class counts as RT. */
static void test_classes_alternate(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 20, 4);
  submit_class(&bed, LLS_CLASS_REALTIME, 30, 4);
  submit_class(&bed, LLS_CLASS_NONE, 40, 4);
  expect_plan(&bed, "1:30 2:40");
  expect_plan(&bed, "0:20");
  expect_plan(&bed, "1:1 2:1");
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 10, 4);
  expect_plan(&bed, "0:1 3:10"); /* the running one continues, then the new one */
  expect_plan(&bed, "1:1 2:1");
  expect_plan(&bed, "0:1 3:1");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* Only BE requests: BE, BE. Afterwards the turns continue as if there had been both
 * classes. */
static void test_one_class_runs_every_step(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 20, 9);
  expect_plan(&bed, "0:20");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "0:1");
  submit_class(&bed, LLS_CLASS_REALTIME, 30, 2);
  expect_plan(&bed, "0:1"); /* the turn of BE */
  expect_plan(&bed, "1:30");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "0:1");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

static void test_turns_of_several_steps(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("quantum_iters", "2", "max_batch", "1");
  assert_int_equal(bed_open(&bed, &o), 0);
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 20, 4);
  submit_class(&bed, LLS_CLASS_REALTIME, 30, 4);
  submit_class(&bed, LLS_CLASS_REALTIME, 30, 4);
  expect_plan(&bed, "1:30");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "0:20");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "1:1");
  expect_plan(&bed, "1:1"); /* ends */
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "2:30");
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* The other class's newest request gives way, however old it is; then the own
 * class's. */
static void test_the_other_class_gives_way_first(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.scheduler.parameters = POLICY_PARAMETERS("watermark", "0");
  o.device_units = 16; /* eight blocks */
  assert_int_equal(bed_open(&bed, &o), 0);
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 31, 40); /* two blocks */
  submit_class(&bed, LLS_CLASS_BEST_EFFORT, 31, 40);
  submit_class(&bed, LLS_CLASS_REALTIME, 32, 40);
  submit_class(&bed, LLS_CLASS_REALTIME, 32, 40);
  expect_plan(&bed, "2:32 3:32");
  expect_plan(&bed, "0:31 1:31");
  expect_plan(&bed, "-1 2:1 3:1"); /* both into its two blocks */
  expect_plan(&bed, "0:1");
  expect_plan(&bed, "2:1 3:1");
  expect_plan(&bed, "-3 0:1"); /* its 33rd token takes a third block */
  bed_finish(&bed, 500);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 4);
  bed_close(&bed);
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
