/* SPDX-License-Identifier: Apache-2.0 */
/* BROS: whole workloads with the caches that it supports. */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <errno.h>

enum { RT = LLS_CLASS_REALTIME, BE = LLS_CLASS_BEST_EFFORT };

static const struct bed_options defaults = {
    .scheduler = {"bros", NULL},
    .cache = {"paged", NULL},
    .block_tokens = 16,
    .device_units = 120,
    .max_tokens = 512,
    .max_sequences = 16,
    .max_context = 320,
    .max_requests = 64,
    .prefill_ns = 100000,
    .audit_every = 1,
};

/* A real-time request arrives: its prompt runs at once, and best-effort ones
 * continue. */
static void test_beside(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  bed.next.request_class = BE;
  submit(&bed, 100, 20);
  submit(&bed, 100, 20);
  expect_plan(&bed, "0:100 1:100");
  bed.next.request_class = RT;
  submit(&bed, 50, 10);
  expect_plan(&bed, "2:50 0:1 1:1");
  expect_plan(&bed, "2:1 0:1 1:1");
  bed_finish(&bed, 40);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* Requests of two classes arrive and end, in memory for some of them; every plan is
 * valid, every cached token is as written, every request ends. */
static void workload(const char *cache, const char *const *parameters,
                     uint32_t host_units, uint64_t from)
{
  struct bed_options o = defaults;
  struct bed bed;
  o.cache.name = cache;
  o.scheduler.parameters = parameters;
  o.host_units = host_units;
  o.seed = from;
  assert_int_equal(bed_open(&bed, &o), 0);
  uint32_t submitted = 0;
  for (int step = 0; step < 300; step++) {
    if (bed_between(&bed, 0, 2) == 0) {
      bed.next.request_class = bed_between(&bed, 0, 2);
      submitted +=
          submit(&bed, bed_between(&bed, 1, 200), bed_between(&bed, 1, 60)) != NULL;
    }
    bed_step(&bed);
  }
  bed_finish(&bed, 20000);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], submitted);
  assert_true(bed.preempted_recompute + bed.preempted_swap > 0);
  assert_true(parameters == NULL || host_units == 0 || bed.preempted_swap > 0);
  bed_close(&bed);
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

/* Memory is full of best-effort requests: a real-time one takes some of their slots,
 * whose tokens go to the host and return before the requests run again. */
static void test_displacing(void **state)
{
  (void)state;
  struct bed_options o = defaults;
  struct bed bed;
  o.cache.name = "bidirectional";
  o.device_units = 2 * 16; /* their memory, and two units for the watermark */
  o.host_units = 60;
  assert_int_equal(bed_open(&bed, &o), 0);
  bed.next.request_class = BE;
  submit(&bed, 100, 20);
  submit(&bed, 110, 20);
  bed_step(&bed);
  bed.next.request_class = RT;
  submit(&bed, 100, 10);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 2), 100);
  assert_int_equal(bed.preempted_swap + bed.preempted_recompute, 0);
  assert_true(bed.copies[LLS_COPY_DEVICE_TO_HOST] > 0);
  bed_finish(&bed, 100);
  assert_true(bed.copies[LLS_COPY_HOST_TO_DEVICE] > 0);
  assert_int_equal(bed.finished[LLS_FINISH_LENGTH], 3);
  bed_close(&bed);
}

/* b_max below b_base is refused with an error. */
static void test_parameters(void **state)
{
  (void)state;
  static const char *const wrong[] = {"b_base", "64", "b_max", "32", NULL};
  struct bed_options o = defaults;
  struct bed bed;
  o.scheduler.parameters = wrong;
  assert_int_equal(bed_open(&bed, &o), -EINVAL);
  assert_non_null(strstr(bed.failure, "b_max = 32 is less than b_base = 64"));
  bed_close(&bed);
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
