/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the figures of policies (stats, host->count) with the bed's own counts.
 */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <math.h>

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"fcfs", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 4,
    .device_units = 40,
    .max_tokens = 256,
    .max_sequences = 16,
    .max_context = 64,
    .max_requests = 32,
    .prefill_ns = MS,
    .audit_every = 1,
};

static void expect(struct bed *bed, const char *name, double value)
{
  double said = bed_figure(bed, name);
  if (isnan(said) || said != value)
    fail_msg("%s: expected %g in\n%s", name, value, bed->text);
}

/* Sum of level_FIRST and all later levels. */
static double levels(struct bed *bed, int first)
{
  double sum = 0, n;
  char name[32];
  for (int i = first;; i++, sum += n) {
    snprintf(name, sizeof name, "level_%d", i);
    n = bed_figure(bed, name);
    if (isnan(n))
      return sum;
  }
}

static void open_with(struct bed *bed, const char *scheduler, const char *cache,
                      uint32_t host_units)
{
  static const char *const swap[] = {"preempt", "swap", NULL};
  struct bed_options o = defaults;
  o.scheduler = (struct harness_policy){scheduler, host_units > 0 ? swap : NULL};
  o.cache.name = cache;
  if (strcmp(cache, "paged") != 0)
    o.cache.parameters = NULL;
  o.host_units = host_units;
  assert_int_equal(bed_open(bed, &o), 0);
}

/* ---- schedulers -------------------------------------------------------------------- */

static void test_levels(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "mlfq", "paged", 0);
  for (uint32_t i = 0; i < 12; i++)
    submit(&bed, 1 + 4 * i, 8);
  assert_float_equal(levels(&bed, 0), 12, 0);
  expect(&bed, "level_0", 3);
  for (int i = 0; i < 5; i++)
    bed_step(&bed);
  bed_finish(&bed, 500);
  assert_float_equal(levels(&bed, 0), 0, 0);
  bed_close(&bed);

  open_with(&bed, "alise", "paged", 0);
  for (uint32_t i = 0; i < 12; i++)
    submit(&bed, 1 + 4 * i, 8);
  for (int i = 0; bed_alive(&bed) > 0 && i < 500; i++) {
    assert_float_equal(levels(&bed, 1), bed_alive(&bed), 0);
    bed_step(&bed);
  }
  bed_close(&bed);
}

/* A quantum is used up in its first step: 30 ms of 10. */
static void test_demoted(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "mlfq", "paged", 0);
  const struct lls_live *r = submit(&bed, 5, 20);
  const struct lls_step_result result = {.request = &r->view, .tokens = 1, .emitted = 1};
  const struct lls_step_report report = {.size = sizeof report,
                                         .started_ns = bed.now_ns,
                                         .ended_ns = bed.now_ns + 30 * MS,
                                         .n_results = 1,
                                         .results = &result};
  bed.s->on_step(bed.scheduler_self, &report);
  expect(&bed, "demoted", 1);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

static void test_classes_and_tenants(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "rr", "paged", 0);
  for (uint32_t i = 0; i < 5; i++) {
    bed.next.request_class = i < 2 ? LLS_CLASS_REALTIME : LLS_CLASS_BEST_EFFORT;
    submit(&bed, 4, 2);
  }
  expect(&bed, "waiting_realtime", 2);
  expect(&bed, "waiting_best_effort", 3);
  bed_finish(&bed, 50);
  bed_close(&bed);

  open_with(&bed, "vtc", "paged", 0);
  for (uint32_t i = 0; i < 6; i++) {
    bed.next.tenant = i % 3;
    submit(&bed, 4, 2);
  }
  expect(&bed, "tenants_waiting", 3);
  expect(&bed, "most_served", 0);
  bed_finish(&bed, 50);
  expect(&bed, "tenants_waiting", 0);
  bed_close(&bed);
}

static void test_deadlines(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "edf", "paged", 0);
  expect(&bed, "first_due_s", INFINITY);
  bed.next.slo.ttft_ns = LLS_NS_PER_S;
  submit(&bed, 4, 2);
  bed.next.slo.ttft_ns = 3 * LLS_NS_PER_S;
  submit(&bed, 4, 2);
  expect(&bed, "first_due_s", 1);
  expect(&bed, "late", 0);
  bed.now_ns += 2 * LLS_NS_PER_S;
  expect(&bed, "first_due_s", -1);
  expect(&bed, "late", 1);
  bed_finish(&bed, 50);
  bed_close(&bed);
}

/* ---- cache managers ---------------------------------------------------------------- */

/* Nothing is said of events that never happened. */
static double counted(struct bed *bed, const char *name)
{
  double said = bed_figure(bed, name);
  return isnan(said) ? 0 : said;
}

/* A block is two units. Copies before steps and beside them have a figure each. */
static void expect_copies(struct bed *bed, const char *before, const char *beside,
                          enum lls_copy_way kind)
{
  assert_true(counted(bed, before) > 0);
  assert_float_equal(counted(bed, before) + counted(bed, beside), 2 * bed->copies[kind],
                     0);
}

/* The swaps of a refused plan are undone, and not counted. */
static void test_swaps(void **state)
{
  (void)state;
  static const char *const caches[] = {"paged", "tiered"};
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    struct bed bed;
    open_with(&bed, "fcfs", caches[i], 40);
    bed.o.expect_refusals = true;
    for (int n = 0; n < 8; n++)
      submit(&bed, 8, 30);
    for (int step = 0; bed_alive(&bed) > 0 && step < 2000; step++) {
      bed.refuse_next = step % 3 == 0;
      bed_step(&bed);
      bed.refuse_next = false;
    }
    expect_copies(&bed, "units_swapped_out", "units_offloaded", LLS_COPY_DEVICE_TO_HOST);
    expect_copies(&bed, "units_swapped_in", "units_uploaded", LLS_COPY_HOST_TO_DEVICE);
    bed_close(&bed);
  }
}

/* 20 blocks: ten of one request stay in the index; another request of sixteen evicts
 * six of them, and one more for each block of its answer. */
static void test_evicted(void **state)
{
  (void)state;
  struct bed bed;
  struct bed_options o = defaults;
  o.cache.parameters = NULL;
  assert_int_equal(bed_open(&bed, &o), 0);
  submit(&bed, 40, 1);
  bed_finish(&bed, 10);
  expect(&bed, "blocks", 20);
  expect(&bed, "blocks_reusable", 10);
  expect(&bed, "blocks_free", 10);
  submit(&bed, 62, 1);
  bed_finish(&bed, 10);
  expect(&bed, "blocks_evicted", 6);
  expect(&bed, "blocks_free", 1); /* the block that is not full */
  bed_close(&bed);
}

static void test_regions(void **state)
{
  (void)state;
  struct bed bed;
  open_with(&bed, "orca", "contiguous", 0);
  submit(&bed, 10, 4);
  bed_step(&bed);
  expect(&bed, "tokens_cached", 10);
  assert_true(bed_figure(&bed, "tokens_reserved") >= 14);
  assert_true(bed_figure(&bed, "reserved_units") > 0 ||
              bed_figure(&bed, "blocks_free") < 20);
  bed_finish(&bed, 50);
  expect(&bed, "blocks_free", 20);
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_levels),    cmocka_unit_test(test_demoted),
      cmocka_unit_test(test_deadlines), cmocka_unit_test(test_classes_and_tenants),
      cmocka_unit_test(test_swaps),     cmocka_unit_test(test_evicted),
      cmocka_unit_test(test_regions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
