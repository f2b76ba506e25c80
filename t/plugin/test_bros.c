/* SPDX-License-Identifier: Apache-2.0 */
/* BROS: whole workloads over the caches that it works with. */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <errno.h>

enum { RT = LLS_CLASS_REALTIME, BE = LLS_CLASS_BEST_EFFORT };

static const struct fake_options defaults = {
    .scheduler = {"bros", NULL},
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 120,
    .max_tokens = 512,
    .max_sequences = 16,
    .max_context = 320,
    .max_requests = 64,
    .prefill_ns = 100000,
    .audit = true,
};

/* A real-time request comes: its prompt runs at once, and best-effort ones go on beside
 * it. */
static void test_beside(void **state)
{
  (void)state;
  struct fake f;
  assert_int_equal(fake_open(&f, &defaults), 0);
  f.next.request_class = BE;
  submit(&f, 100, 20);
  submit(&f, 100, 20);
  expect_plan(&f, "0:100 1:100");
  f.next.request_class = RT;
  submit(&f, 50, 10);
  expect_plan(&f, "2:50 0:1 1:1");
  expect_plan(&f, "2:1 0:1 1:1");
  fake_finish(&f, 40);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
  fake_close(&f);
}

/* Two classes come and go in memory for a part of them; every plan is good, every cached
 * token is what was written, everybody ends. */
static void workload(const char *cache, const char *const *parameters,
                     uint32_t host_units, uint64_t from)
{
  struct fake_options o = defaults;
  struct fake f;
  o.cache.name = cache;
  o.scheduler.parameters = parameters;
  o.host_units = host_units;
  o.seed = from;
  assert_int_equal(fake_open(&f, &o), 0);
  uint32_t submitted = 0;
  for (int step = 0; step < 300; step++) {
    if (fake_between(&f, 0, 2) == 0) {
      f.next.request_class = fake_between(&f, 0, 2);
      submitted += submit(&f, fake_between(&f, 1, 200), fake_between(&f, 1, 60)) != NULL;
    }
    fake_step(&f);
  }
  fake_finish(&f, 20000);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], submitted);
  assert_true(f.preempted_recompute + f.preempted_swap > 0);
  assert_true(parameters == NULL || host_units == 0 || f.preempted_swap > 0);
  fake_close(&f);
}

static void test_workloads(void **state)
{
  (void)state;
  static const char *const swap[] = {"preempt", "swap", NULL};
  static const char *const recompute[] = {"preempt", "recompute", "b_base", "4", NULL};
  static const char *const groups[] = {"token_group", "4", "missed", "first", NULL};
  for (uint64_t from = 0; from < 4; from++) {
    workload("paged", swap, 60, from);
    workload("paged", recompute, 0, from);
    workload("hybrid", groups, 0, from);
    workload("tiered", swap, 60, from);
    workload("bidirectional", swap, 60, from);
    workload("bidirectional", recompute, 0, from);
  }
}

/* Memory is full of best-effort requests: a real-time one takes slots of theirs, whose
 * tokens go to the host and come back before they run again. */
static void test_displacing(void **state)
{
  (void)state;
  struct fake_options o = defaults;
  struct fake f;
  o.cache.name = "bidirectional";
  o.device_units = 2 * 16; /* theirs, and two for the watermark */
  o.host_units = 60;
  assert_int_equal(fake_open(&f, &o), 0);
  f.next.request_class = BE;
  submit(&f, 100, 20);
  submit(&f, 110, 20);
  fake_step(&f);
  f.next.request_class = RT;
  submit(&f, 100, 10);
  fake_step(&f);
  assert_int_equal(planned(&f, 2), 100);
  assert_int_equal(f.preempted_swap + f.preempted_recompute, 0);
  assert_true(f.copies[LLS_COPY_DEVICE_TO_HOST] > 0);
  fake_finish(&f, 100);
  assert_true(f.copies[LLS_COPY_HOST_TO_DEVICE] > 0);
  assert_int_equal(f.finished[LLS_FINISH_LENGTH], 3);
  fake_close(&f);
}

/* b_max below b_base is refused with a sentence. */
static void test_parameters(void **state)
{
  (void)state;
  static const char *const wrong[] = {"b_base", "64", "b_max", "32", NULL};
  struct fake_options o = defaults;
  struct fake f;
  o.scheduler.parameters = wrong;
  assert_int_equal(fake_open(&f, &o), -EINVAL);
  assert_non_null(strstr(f.failure, "b_max = 32 is less than b_base = 64"));
  fake_close(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_displacing),
      cmocka_unit_test(test_workloads),
      cmocka_unit_test(test_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
