/* SPDX-License-Identifier: Apache-2.0 */
/* Autellix: a program's calls begin where the program is, sink while they run, and rise
 * when it has starved. */
#include "t/tap.h"

#include "t/plugin/script.h"

#define MS INT64_C(1000000)

static const struct bed_options defaults = {
    .scheduler = {"autellix", POLICY_PARAMETERS("period", "1", "max_seqs", "1")},
    .cache = {"paged", POLICY_PARAMETERS("prefix_sharing", "off")},
    .block_tokens = 16,
    .device_units = 400,
    .max_tokens = 4096,
    .max_sequences = 64,
    .max_context = 1024,
    .max_requests = 64,
    .prefill_ns = MS,
    .audit_every = 1,
};

static const struct lls_session a = {.size = sizeof a, .id = 7, .name = "a"};
static const struct lls_session b = {.size = sizeof b, .id = 9, .name = "b"};

static struct lls_live *call(struct bed *bed, const struct lls_session *session)
{
  bed->next.session = session;
  return submit(bed, 10, 20);
}

/* Reports to the scheduler that the request has run for `ms`. */
static void serve(struct bed *bed, const struct lls_live *r, int64_t ms)
{
  const struct lls_step_result result = {.request = &r->view, .tokens = 1, .emitted = 1};
  const struct lls_step_report report = {
      .size = sizeof report,
      .started_ns = bed->now_ns,
      .ended_ns = bed->now_ns + ms * MS,
      .n_results = 1,
      .results = &result,
  };
  bed->s->on_step(bed->scheduler_self, &report);
  bed->now_ns += ms * MS;
}

static void expect_level(struct bed *bed, uint32_t request, uint32_t level)
{
  char line[80];
  snprintf(line, sizeof line, "level %u request %u", level, request);
  if (!dumps(bed, line))
    fail_msg("expected \"%s\" in\n%s", line, bed->text);
}

/* The README's example: 700 ms in the first call, then 400 in the second. */
static void test_a_call_begins_where_its_program_is(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  struct lls_live *first = call(&bed, &a);
  serve(&bed, first, 700);
  expect_level(&bed, 0, 1);
  bed_cancel(&bed, first);
  struct lls_live *second = call(&bed, &a);
  expect_level(&bed, 1, 1);
  call(&bed, NULL);
  expect_level(&bed, 2, 0);
  call(&bed, &b);
  expect_level(&bed, 3, 0);
  serve(&bed, second, 400);
  expect_level(&bed, 1, 2);
  bed_finish(&bed, 200);
  bed_close(&bed);
}

/* Equations 1 and 2: two calls of 400 ms beside each other are a service of 800 ms or,
 * with paths, of 400. */
static void test_sum_and_path(void **state)
{
  (void)state;
  static const char *const paths[] = {"off", "on"};
  for (uint32_t i = 0; i < 2; i++) {
    struct bed bed;
    struct bed_options o = defaults;
    o.scheduler.parameters = POLICY_PARAMETERS("paths", paths[i]);
    assert_int_equal(bed_open(&bed, &o), 0);
    struct lls_live *one = call(&bed, &a), *other = call(&bed, &a);
    serve(&bed, one, 400);
    serve(&bed, other, 400);
    bed_cancel(&bed, one);
    bed_cancel(&bed, other);
    call(&bed, &a);
    expect_level(&bed, 2, i == 0 ? 1 : 0);
    bed_finish(&bed, 100);
    bed_close(&bed);
  }
}

/* A new program's call runs before one of a program that has had its quantum; the latter
 * has waited long enough when 3 times its 600 ms are over, and then comes first by
 * arrival. */
static void test_a_starved_program_rises(void **state)
{
  (void)state;
  struct bed bed;
  assert_int_equal(bed_open(&bed, &defaults), 0);
  struct lls_live *served = call(&bed, &a);
  serve(&bed, served, 600);
  call(&bed, &b);
  bed_step(&bed);
  assert_int_equal(planned(&bed, 0), 0);
  assert_int_equal(planned(&bed, 1), 10);
  bed.now_ns += 1800 * MS;
  bed_step(&bed);
  assert_int_equal(planned(&bed, 0), 10);
  bed_stats(&bed);
  assert_true(bed_figure(&bed, "programs") == 2);
  bed_finish(&bed, 200);
  bed_close(&bed);
}

/* A session that ended is forgotten, and no other is lost. */
static void test_ended_sessions_are_forgotten(void **state)
{
  (void)state;
  struct bed bed;
  struct lls_session sessions[20];
  assert_int_equal(bed_open(&bed, &defaults), 0);
  for (uint32_t i = 0; i < 20; i++) {
    sessions[i] = (struct lls_session){.size = sizeof *sessions, .id = i};
    struct lls_live *r = call(&bed, &sessions[i]);
    serve(&bed, r, 600);
    bed_cancel(&bed, r);
  }
  for (uint32_t i = 0; i < 20; i += 2)
    bed.s->on_session_end(bed.scheduler_self, &sessions[i]);
  bed.s->on_session_end(bed.scheduler_self, &sessions[0]); /* of none any more */
  bed_stats(&bed);
  assert_true(bed_figure(&bed, "programs") == 10);
  for (uint32_t i = 0; i < 20; i++) {
    struct lls_live *r = call(&bed, &sessions[i]);
    expect_level(&bed, 20 + i, i % 2);
    bed_cancel(&bed, r);
  }
  bed_close(&bed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_call_begins_where_its_program_is),
      cmocka_unit_test(test_sum_and_path),
      cmocka_unit_test(test_a_starved_program_rises),
      cmocka_unit_test(test_ended_sessions_are_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
