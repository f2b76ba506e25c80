/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loop when the device fails in the middle of a step. Requests end exactly
 * once, with an error, and no more are accepted. If one of several instances fails,
 * requests of the others continue to their end.
 */
#include "t/tap.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>

#include "core/record/snapshot.h"
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

/* A device whose step_end fails from the n-th step on. All instances get its
 * operations, because devices with different operations do not copy from each other. */
static struct lls_device_ops broken_ops;
static int (*real_step_end)(struct lls_device *, struct lls_error *);
static const struct lls_device *broken_device;
static int good_steps; /* [step] of the broken device */

static int breaking_step_end(struct lls_device *device, struct lls_error *err)
{
  int rc = real_step_end(device, err);
  if (rc < 0 || device != broken_device || good_steps-- > 0)
    return rc;
  return lls_fail(err, -EIO, "the device fell off the bus");
}

/* Before its first step. */
static void break_device(struct harness *h, uint32_t instance, int after_steps)
{
  broken_ops = *h->device->ops;
  real_step_end = broken_ops.step_end;
  broken_ops.step_end = breaking_step_end;
  broken_device = h->devices[instance];
  good_steps = after_steps;
  for (uint32_t i = 0; i < HARNESS_INSTANCES; i++)
    if (h->devices[i] != NULL)
      h->devices[i]->ops = &broken_ops;
}

static struct harness_options options(bool threaded)
{
  return (struct harness_options){
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
      .instances = 1,
  };
}

/* The first is a prefill instance, the other a decode instance. */
static struct harness_options roles(bool threaded)
{
  struct harness_options o = options(threaded);
  o.scheduler.name = "distserve";
  o.instances = 2;
  o.roles[0] = LLS_ROLE_PREFILL;
  o.roles[1] = LLS_ROLE_DECODE;
  return o;
}

static void open_harness(struct harness *h, const struct harness_options *o)
{
  struct lls_error err = {0};
  if (harness_open(h, o, &err) < 0)
    fail_msg("%s", err.text);
  h->log.level = 0;
  h->log.fd = -1; /* the failure is expected: keep the test's output readable */
}

/* Returns how many were accepted: a step thread may fail before the last submission. */
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

/* Returns how many ended with an error; the others must have complete answers. */
static int count_errors(const struct client *clients, int n)
{
  int errors = 0;
  for (int i = 0; i < n; i++) {
    assert_int_equal(clients[i].finished, 1);
    errors += clients[i].reason == LLS_FINISH_ERROR;
    if (clients[i].reason != LLS_FINISH_ERROR) {
      assert_int_equal(clients[i].reason, LLS_FINISH_LENGTH);
      assert_int_equal(clients[i].n_tokens, 64);
    }
  }
  return errors;
}

static void assert_failed_for_good(struct harness *h)
{
  struct lls_error err = {0};
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
    const struct harness_options o = options(false);
    open_harness(&h, &o);
    break_device(&h, 0, after);
    assert_int_equal(submit(&h, clients, 10), 10);
    while (lls_loop_step(h.loop) >= 0)
      lls_loop_events(h.loop, on_event, NULL);
    lls_loop_events(h.loop, on_event, NULL);
    assert_true(lls_loop_idle(h.loop));
    assert_int_equal(count_errors(clients, 10), 10);
    assert_failed_for_good(&h);
    harness_close(&h);
  }
}

static struct lls_loop_status status_of(struct harness *h, uint32_t instance)
{
  struct lls_loop_status s;
  uint32_t role;
  lls_loop_instance_status(h->loop, instance, &role, &s);
  return s;
}

static void test_an_engine_failure_on_the_step_thread(void **state)
{
  (void)state;
  struct harness h;
  struct client clients[10] = {0};
  const struct harness_options o = options(true);
  open_harness(&h, &o);
  break_device(&h, 0, 20);
  int accepted = submit(&h, clients, 10);
  while (!lls_loop_idle(h.loop))
    lls_loop_events(h.loop, on_event, NULL);
  assert_int_equal(count_errors(clients, accepted), accepted);
  assert_failed_for_good(&h);
  assert_int_equal(lls_loop_ask_snapshot(h.loop), 0);
  while (!lls_loop_snapshot_ready(h.loop)) /* snapshots are answered nevertheless */
    sched_yield();
  assert_int_equal(lls_loop_snapshot(h.loop, 0)->n, 0);
  harness_close(&h);
}

/* ---- one of two instances ---------------------------------------------------------- */

/* Steps both instances; after one has failed, the other alone. */
static void run_to_end(struct harness *h)
{
  for (int i = 0; i < 10000 && !lls_loop_idle(h->loop); i++) {
    for (uint32_t k = 0; k < 2; k++)
      lls_loop_step_one(h->loop, k);
    lls_loop_events(h->loop, on_event, NULL);
  }
  assert_true(lls_loop_idle(h->loop));
}

/* An answer takes 64 steps: none has ended when the device fails. */
static void test_one_of_two_instances_fails(void **state)
{
  (void)state;
  struct harness_options o = options(false);
  o.instances = 2;
  for (uint32_t broken = 0; broken < 2; broken++)
    for (int after = 0; after < 64; after += 9) {
      struct harness h;
      struct client clients[10] = {0};
      open_harness(&h, &o);
      break_device(&h, broken, after);
      assert_int_equal(submit(&h, clients, 10), 10);
      run_to_end(&h);
      assert_int_equal(count_errors(clients, 10), 5);
      assert_failed_for_good(&h);
      harness_close(&h);
    }
}

/* Blocks not copied yet when their instance fails are lost: four answers fill the
 * decode instance, so further offers find no memory. */
static void test_offers_of_an_instance_that_fails(void **state)
{
  (void)state;
  struct harness_options o = roles(false);
  struct harness h;
  struct client clients[8] = {0};
  o.device_units = 48; /* 24 blocks of 4 tokens, where an answer needs 18 */
  o.block_tokens = 4;
  open_harness(&h, &o);
  break_device(&h, 0, INT_MAX);
  assert_int_equal(submit(&h, clients, 4), 4);
  for (int i = 0; i < 16; i++)
    assert_true(lls_loop_step(h.loop) >= 0);
  assert_int_equal(submit(&h, clients + 4, 3), 3);
  for (int i = 0; i < 2; i++)
    assert_true(lls_loop_step(h.loop) >= 0);
  assert_true(status_of(&h, 1).offered > 0);
  uint64_t taken = status_of(&h, 1).taken_over;
  good_steps = 0;
  assert_int_equal(submit(&h, clients + 7, 1), 1);
  while (lls_loop_step_one(h.loop, 0) >= 0)
    ;
  run_to_end(&h);
  assert_int_equal(status_of(&h, 1).taken_over, taken);
  assert_int_equal(count_errors(clients, 8), 8 - (int)taken);
  assert_failed_for_good(&h);
  harness_close(&h);
}

/* With step threads: requests that were offered, that were accepted, and that are in
 * transit. */
static void test_a_prefill_or_a_decode_instance_fails(void **state)
{
  (void)state;
  for (uint32_t broken = 0; broken < 2; broken++)
    for (int after = 0; after < 12; after += 2) {
      struct harness_options o = roles(true);
      struct harness h;
      struct client clients[10] = {0};
      o.device_units = 48;
      open_harness(&h, &o);
      break_device(&h, broken, after);
      int accepted = submit(&h, clients, 10);
      while (!lls_loop_idle(h.loop))
        lls_loop_events(h.loop, on_event, NULL);
      count_errors(clients, accepted);
      if (lls_loop_failed(h.loop, NULL))
        assert_failed_for_good(&h);
      harness_close(&h);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_engine_failure_ends_every_request_once),
      cmocka_unit_test(test_an_engine_failure_on_the_step_thread),
      cmocka_unit_test(test_one_of_two_instances_fails),
      cmocka_unit_test(test_a_prefill_or_a_decode_instance_fails),
      cmocka_unit_test(test_offers_of_an_instance_that_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
