/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the step loop does when others fail: the device in the middle of a step. Requests
 * end exactly once, with an error, and nothing is accepted afterwards.
 */
#include "t/tap.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "core/loop/queues.h"
#include "t/harness.h"
#include "t/reference.h"

struct client {
  uint32_t finished, reason, n_tokens;
};

static void on_event(void *context, const struct lls_event *event)
{
  (void)context;
  struct client *c = event->owner;
  assert_int_equal(c->finished, 0);
  if (event->kind == LLS_EVENT_TOKEN)
    c->n_tokens++;
  else
    c->finished = 1, c->reason = event->reason;
}

/* A device whose step_end fails from the n-th step on. */
static struct lls_device_ops broken_ops;
static int (*real_step_end)(struct lls_device *, struct lls_error *);
static int good_steps;

static int breaking_step_end(struct lls_device *device, struct lls_error *err)
{
  int rc = real_step_end(device, err);
  if (rc < 0 || good_steps-- > 0)
    return rc;
  return lls_fail(err, -EIO, "the device fell off the bus");
}

static void break_device(struct harness *h, int after_steps)
{
  broken_ops = *h->device->ops;
  real_step_end = broken_ops.step_end;
  broken_ops.step_end = breaking_step_end;
  good_steps = after_steps;
  h->device->ops = &broken_ops;
}

static void open_harness(struct harness *h, bool threaded)
{
  struct harness_options o = {
      .model = "t/data/models/llama",
      .element = LLS_F32,
      .max_tokens = 32,
      .max_sequences = 4,
      .max_requests = 16,
      .block_tokens = 8,
      .device_units = 128,
      .scheduler = {"fcfs", NULL},
      .cache = {"paged", NULL},
      .predictor = {"none", NULL},
      .threaded = threaded,
  };
  struct lls_error err = {0};
  if (harness_open(h, &o, &err) < 0)
    fail_msg("%s", err.text);
  h->log.level = 0;
  h->log.fd = -1; /* the failure is expected: keep the test's output readable */
}

/* How many were accepted: a step thread may have failed before the last one came. */
static int submit(struct harness *h, struct client *clients, int n)
{
  static const int32_t prompt[] = {5, 6, 7, 8, 9, 10};
  for (int i = 0; i < n; i++) {
    struct lls_submission s = harness_submission(prompt, 6, 64, &clients[i]);
    uint64_t id;
    if (lls_loop_submit(h->loop, &s, &id, NULL) < 0)
      return i;
  }
  return n;
}

static void assert_failed_for_good(struct harness *h, const struct client *clients, int n)
{
  struct lls_error err = {0};
  for (int i = 0; i < n; i++) {
    assert_int_equal(clients[i].finished, 1);
    assert_int_equal(clients[i].reason, LLS_FINISH_ERROR);
  }
  assert_true(lls_loop_failed(h->loop, &err));
  assert_string_equal(err.text, "the device fell off the bus");
  struct lls_submission s = harness_submission(&(int32_t){1}, 1, 1, NULL);
  uint64_t id;
  assert_int_equal(lls_loop_submit(h->loop, &s, &id, &err), -ESHUTDOWN);
}

static void test_an_engine_failure_ends_every_request_once(void **state)
{
  (void)state;
  for (int after = 0; after < 12; after++) {
    struct harness h;
    struct client clients[10] = {0};
    open_harness(&h, false);
    break_device(&h, after);
    assert_int_equal(submit(&h, clients, 10), 10);
    while (lls_loop_step(h.loop) >= 0)
      lls_loop_events(h.loop, on_event, NULL);
    lls_loop_events(h.loop, on_event, NULL);
    assert_true(lls_loop_idle(h.loop));
    assert_failed_for_good(&h, clients, 10);
    harness_close(&h);
  }
}

static void test_an_engine_failure_on_the_step_thread(void **state)
{
  (void)state;
  struct harness h;
  struct client clients[10] = {0};
  open_harness(&h, true);
  break_device(&h, 20);
  int accepted = submit(&h, clients, 10);
  while (!lls_loop_idle(h.loop))
    lls_loop_events(h.loop, on_event, NULL);
  assert_failed_for_good(&h, clients, accepted);
  assert_int_equal(lls_loop_ask_queues(h.loop), 0);
  while (!lls_loop_queues_ready(h.loop)) /* whoever looks is answered all the same */
    sched_yield();
  assert_int_equal(lls_loop_queues(h.loop, 0)->n, 0);
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_engine_failure_ends_every_request_once),
      cmocka_unit_test(test_an_engine_failure_on_the_step_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
