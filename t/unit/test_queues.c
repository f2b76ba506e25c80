/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot of an instance's queues, and when it is taken; with more requests than
 * it shows. */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "core/record/snapshot.h"
#include "t/harness.h"

#define MODEL    "share/demo-model"
#define REQUESTS 3000

static void ignore(void *context, const struct lls_event *event)
{
  (void)context, (void)event;
}

/* All costs are 0: a step has as many requests as the device takes. */
static void open_harness(struct harness *h, uint32_t requests)
{
  static const struct lls_sim_options sim = {.memory = 1 << 30};
  const struct harness_options o = {
      .model = MODEL,
      .dummy = true,
      .max_tokens = 64,
      .max_sequences = 8,
      .max_requests = requests,
      .block_tokens = 16,
      .max_context = 64,
      .device_units = 256,
      .scheduler = {"sjf", NULL},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .sim = &sim,
  };
  struct lls_error err = {0};
  if (harness_open(h, &o, &err) < 0)
    fail_msg("%s", err.text);
}

static void submit(struct harness *h, uint32_t max_new_tokens)
{
  static const int32_t prompt[] = {5, 6, 7, 8};
  struct lls_submission s = harness_submission(prompt, 4, max_new_tokens, h);
  uint64_t id;
  s.label =
      "a client's own name of it, which goes on and on until it is cut off somewhere";
  assert_int_equal(lls_loop_submit(h->loop, &s, &id, NULL), 0);
}

static const struct lls_snapshot *look(struct harness *h)
{
  assert_int_equal(lls_loop_ask_snapshot(h->loop), 0);
  assert_int_equal(lls_loop_ask_snapshot(h->loop), -EBUSY);
  assert_false(lls_loop_snapshot_ready(h->loop));
  assert_int_equal(lls_loop_idle_ns(h->loop), 0); /* there is something to do */
  assert_true(lls_loop_step(h->loop) >= 0);
  assert_true(lls_loop_snapshot_ready(h->loop));
  assert_false(lls_loop_snapshot_ready(h->loop)); /* reported once */
  lls_loop_events(h->loop, ignore, NULL);
  return lls_loop_snapshot(h->loop, 0);
}

static void test_nobody(void **state)
{
  (void)state;
  struct harness h;
  open_harness(&h, 16);
  const struct lls_snapshot *q = look(&h);
  assert_int_equal(q->n, 0);
  assert_string_equal(q->scheduler, "scheduler sjf");
  static const char order[] = "order: shortest predicted ";
  assert_memory_equal(q->lines, order, sizeof order - 1);
  harness_close(&h);
}

static void test_who_runs_and_who_waits(void **state)
{
  (void)state;
  struct harness h;
  open_harness(&h, 16);
  for (uint32_t i = 0; i < 12; i++)
    submit(&h, 40 - i);
  assert_true(lls_loop_step(h.loop) >= 0);
  const struct lls_snapshot *q = look(&h);
  assert_int_equal(q->n, 12);
  assert_int_equal(q->n_left_out, 0);
  for (uint32_t i = 0; i < 12; i++)
    assert_string_equal(q->requests[i].state, i < 8 ? "running" : "waiting");
  assert_int_equal(strlen(q->requests[0].label), LLS_SNAPSHOT_LABEL_MAX - 1);
  assert_int_equal(q->requests[0].cached_tokens, 4);
  assert_int_equal(q->requests[8].cached_tokens, 0);
  harness_close(&h);
}

/* A line is "request N key M": 3,000 lines are more than fit. */
static void test_the_first_of_many(void **state)
{
  (void)state;
  struct harness h;
  open_harness(&h, REQUESTS);
  for (uint32_t i = 0; i < REQUESTS; i++)
    submit(&h, 40);
  const struct lls_snapshot *q = look(&h);
  uint32_t lines = 0;
  for (size_t i = 0; i < q->length; i++)
    lines += q->lines[i] == '\n';
  assert_int_equal(q->n, LLS_SNAPSHOT_REQUESTS);
  assert_int_equal(q->n + q->n_left_out, REQUESTS);
  assert_true(q->lines_left_out > 0);
  assert_int_equal(q->lines[q->length - 1], '\n');
  /* lines of parameters */
  assert_in_range(lines + q->lines_left_out, REQUESTS, REQUESTS + 16);
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nobody),
      cmocka_unit_test(test_who_runs_and_who_waits),
      cmocka_unit_test(test_the_first_of_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
