/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policies say of themselves (stats, host->count) against what the fake host has
 * seen happen.
 */
#include "t/tap.h"

#include "t/plugin/script.h"

#include <math.h>

#define MS INT64_C(1000000)

static const struct fake_options defaults = {
    .scheduler = {"fcfs", NULL},
    .cache = {"paged", (const char *const[]){"prefix_sharing", "off", NULL}},
    .block_tokens = 4,
    .device_units = 40,
    .max_tokens = 256,
    .max_sequences = 16,
    .max_context = 64,
    .max_requests = 32,
    .prefill_ns = MS,
    .audit = true,
};

static void expect(struct fake *f, const char *name, double value)
{
  double said = fake_figure(f, name);
  if (isnan(said) || said != value)
    fail_msg("%s: expected %g in\n%s", name, value, f->text);
}

/* level_FIRST and on, together. */
static double levels(struct fake *f, int first)
{
  double sum = 0, n;
  char name[32];
  for (int i = first;; i++, sum += n) {
    snprintf(name, sizeof name, "level_%d", i);
    n = fake_figure(f, name);
    if (isnan(n))
      return sum;
  }
}

static void open_with(struct fake *f, const char *scheduler, const char *cache,
                      uint32_t host_units)
{
  static const char *const swap[] = {"preempt", "swap", NULL};
  struct fake_options o = defaults;
  o.scheduler = (struct harness_policy){scheduler, host_units > 0 ? swap : NULL};
  o.cache.name = cache;
  if (strcmp(cache, "paged") != 0)
    o.cache.parameters = NULL;
  o.host_units = host_units;
  assert_int_equal(fake_open(f, &o), 0);
}

/* ---- schedulers -------------------------------------------------------------------- */

static void test_levels(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, "mlfq", "paged", 0);
  for (uint32_t i = 0; i < 12; i++)
    submit(&f, 1 + 4 * i, 8);
  assert_float_equal(levels(&f, 0), 12, 0);
  expect(&f, "level_0", 3);
  for (int i = 0; i < 5; i++)
    fake_step(&f);
  fake_finish(&f, 500);
  assert_float_equal(levels(&f, 0), 0, 0);
  fake_close(&f);

  open_with(&f, "alise", "paged", 0);
  for (uint32_t i = 0; i < 12; i++)
    submit(&f, 1 + 4 * i, 8);
  for (int i = 0; fake_alive(&f) > 0 && i < 500; i++) {
    assert_float_equal(levels(&f, 1), fake_alive(&f), 0);
    fake_step(&f);
  }
  fake_close(&f);
}

/* A quantum is used up in its first step: 30 ms of 10. */
static void test_demoted(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, "mlfq", "paged", 0);
  const struct fake_request *r = submit(&f, 5, 20);
  const struct lls_step_result result = {&r->view, 1, 1};
  const struct lls_step_report report = {.size = sizeof report,
                                         .started_ns = f.now_ns,
                                         .ended_ns = f.now_ns + 30 * MS,
                                         .n_results = 1,
                                         .results = &result};
  f.s->on_step(f.scheduler_self, &report);
  expect(&f, "demoted", 1);
  fake_finish(&f, 50);
  fake_close(&f);
}

static void test_classes_and_tenants(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, "rr", "paged", 0);
  for (uint32_t i = 0; i < 5; i++) {
    f.next.request_class = i < 2 ? LLS_CLASS_REALTIME : LLS_CLASS_BEST_EFFORT;
    submit(&f, 4, 2);
  }
  expect(&f, "waiting_realtime", 2);
  expect(&f, "waiting_best_effort", 3);
  fake_finish(&f, 50);
  fake_close(&f);

  open_with(&f, "vtc", "paged", 0);
  for (uint32_t i = 0; i < 6; i++) {
    f.next.tenant = i % 3;
    submit(&f, 4, 2);
  }
  expect(&f, "tenants_waiting", 3);
  expect(&f, "most_served", 0);
  fake_finish(&f, 50);
  expect(&f, "tenants_waiting", 0);
  fake_close(&f);
}

static void test_deadlines(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, "edf", "paged", 0);
  expect(&f, "first_due_s", INFINITY);
  f.next.slo.ttft_ns = LLS_NS_PER_S;
  submit(&f, 4, 2);
  f.next.slo.ttft_ns = 3 * LLS_NS_PER_S;
  submit(&f, 4, 2);
  expect(&f, "first_due_s", 1);
  expect(&f, "late", 0);
  f.now_ns += 2 * LLS_NS_PER_S;
  expect(&f, "first_due_s", -1);
  expect(&f, "late", 1);
  fake_finish(&f, 50);
  fake_close(&f);
}

/* ---- cache managers ---------------------------------------------------------------- */

/* Of nothing at all nothing is counted. */
static void expect_copies(struct fake *f, const char *name, enum lls_copy_kind kind)
{
  double counted = fake_figure(f, name);
  assert_true(f->copies[kind] > 0);
  assert_float_equal(isnan(counted) ? 0 : counted, f->copies[kind], 0);
}

/* What a refused plan swapped is put back, and has not happened. */
static void test_swaps(void **state)
{
  (void)state;
  static const char *const caches[] = {"paged", "tiered"};
  for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
    struct fake f;
    open_with(&f, "fcfs", caches[i], 40);
    f.o.expect_refusals = true;
    for (int n = 0; n < 8; n++)
      submit(&f, 8, 30);
    for (int step = 0; fake_alive(&f) > 0 && step < 2000; step++) {
      f.refuse_next = step % 3 == 0;
      fake_step(&f);
      f.refuse_next = false;
    }
    expect_copies(&f, "units_swapped_out", LLS_COPY_DEVICE_TO_HOST);
    expect_copies(&f, "units_swapped_in", LLS_COPY_HOST_TO_DEVICE);
    fake_close(&f);
  }
}

/* 20 blocks: ten of one request stay in the index, sixteen of another want six of them,
 * and one for each block of its answer. */
static void test_evicted(void **state)
{
  (void)state;
  struct fake f;
  struct fake_options o = defaults;
  o.cache.parameters = NULL;
  assert_int_equal(fake_open(&f, &o), 0);
  submit(&f, 40, 1);
  fake_finish(&f, 10);
  expect(&f, "blocks", 20);
  expect(&f, "blocks_reusable", 10);
  expect(&f, "blocks_free", 10);
  submit(&f, 62, 1);
  fake_finish(&f, 10);
  expect(&f, "blocks_evicted", 6);
  expect(&f, "blocks_free", 1); /* the one that is not full */
  fake_close(&f);
}

static void test_regions(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, "orca", "contiguous", 0);
  submit(&f, 10, 4);
  fake_step(&f);
  expect(&f, "tokens_cached", 10);
  assert_true(fake_figure(&f, "tokens_reserved") >= 14);
  assert_true(fake_figure(&f, "reserved_units") > 0 ||
              fake_figure(&f, "blocks_free") < 20);
  fake_finish(&f, 50);
  expect(&f, "blocks_free", 20);
  fake_close(&f);
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
