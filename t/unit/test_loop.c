/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loop with real plugins on a real (tiny) model: whatever the policies do,
 * every request ends once, its text is the reference's, and all memory is released.
 */
#include "t/tap.h"

#include <errno.h>
#include <string.h>

#include "t/clients.h"

static struct harness_options options(const char *scheduler,
                                      const char *const *parameters)
{
  struct harness_options o = client_options(scheduler);
  o.scheduler.parameters = parameters;
  return o;
}

/* Runs every reference prompt COPIES times at once; returns the number of
 * preemptions. */
static uint32_t check_texts(const struct harness_options *o)
{
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  open_or_fail(&h, o);
  struct client clients[3 * COPIES];
  for (int i = 0; i < 3 * COPIES; i++)
    submit(&h, &clients[i], &ref->prompts[i % 3]);
  run_to_end(&h);
  uint32_t preemptions = 0;
  for (int i = 0; i < 3 * COPIES; i++) {
    assert_reference_text(&clients[i]);
    preemptions += clients[i].preemptions;
  }
  assert_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
  return preemptions;
}

static void test_fcfs_gives_the_reference_text(void **state)
{
  (void)state;
  struct harness_options o = options("fcfs", NULL);
  assert_int_equal(check_texts(&o), 0);
}

static void test_chunks_do_not_change_the_text(void **state)
{
  (void)state;
  const char *const parameters[] = {"chunk", "32", NULL};
  struct harness_options o = options("sarathi", parameters);
  assert_int_equal(check_texts(&o), 0);
}

static void test_sharing_prefixes_does_not_change_the_text(void **state)
{
  (void)state;
  struct harness_options o = options("fcfs", NULL);
  o.cache.parameters = NULL;
  o.max_sequences = 4; /* later copies find the prefixes of earlier ones */
  assert_int_equal(check_texts(&o), 0);
}

static void test_recompute_does_not_change_the_text(void **state)
{
  (void)state;
  const char *const schedulers[] = {"fcfs", "sarathi"};
  for (int i = 0; i < 2; i++) {
    struct harness_options o = options(schedulers[i], NULL);
    o.device_units = 64; /* 256 tokens for 12 requests of 69 to 134 */
    assert_true(check_texts(&o) > 0);
  }
}

static void test_swap_does_not_change_the_text(void **state)
{
  (void)state;
  const char *const parameters[] = {"preempt", "swap", NULL};
  const char *const schedulers[] = {"fcfs", "sarathi"};
  for (int i = 0; i < 2; i++) {
    struct harness_options o = options(schedulers[i], parameters);
    o.device_units = 64;
    o.host_units = 256;
    assert_true(check_texts(&o) > 0);
  }
}

static void test_a_prompt_that_never_fits_ends_with_capacity(void **state)
{
  (void)state;
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = options("fcfs", NULL);
  o.device_units = 16; /* 64 tokens; the third prompt has 70 */
  open_or_fail(&h, &o);
  struct client c;
  submit(&h, &c, &ref->prompts[2]);
  run_to_end(&h);
  assert_int_equal(c.finished, 1);
  assert_int_equal(c.reason, LLS_FINISH_CAPACITY);
  assert_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
}

static void test_cancel_frees_everything_in_every_state(void **state)
{
  (void)state;
  struct reference *ref = reference_read(MODEL);
  const char *const parameters[] = {"chunk", "32", "preempt", "swap", NULL};
  struct harness_options o = options("sarathi", parameters);
  o.device_units = 64;
  o.host_units = 64;
  for (uint32_t steps = 0; steps < 40; steps++) { /* cancel all after this many steps */
    struct harness h;
    open_or_fail(&h, &o);
    struct client clients[3 * COPIES];
    for (int i = 0; i < 3 * COPIES; i++)
      submit(&h, &clients[i], &ref->prompts[i % 3]);
    for (uint32_t s = 0; s < steps; s++) {
      lls_loop_step(h.loop);
      lls_loop_events(h.loop, on_event, NULL);
    }
    for (int i = 0; i < 3 * COPIES; i++)
      lls_loop_cancel(h.loop, clients[i].id);
    run_to_end(&h);
    for (int i = 0; i < 3 * COPIES; i++)
      assert_int_equal(clients[i].finished, 1);
    assert_memory_is_back(&h);
    harness_close(&h);
  }
  reference_free(ref);
}

static void test_submissions_are_checked(void **state)
{
  (void)state;
  struct harness h;
  struct harness_options o = options("fcfs", NULL);
  o.max_requests = 2;
  open_or_fail(&h, &o);
  struct client c = {0};
  int32_t tokens[300] = {0};
  uint64_t id;
  struct lls_error err;
  struct lls_submission s = harness_submission(tokens, 0, 1, &c);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -EINVAL);
  s = harness_submission(tokens, 256, 1, &c);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -E2BIG);
  assert_non_null(strstr(err.text, "256 tokens and the context holds 256"));
  tokens[1] = 256;
  s = harness_submission(tokens, 2, 1, &c);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -EINVAL);
  tokens[1] = 0;
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -ENOSPC);
  lls_loop_drain(h.loop);
  assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), -ESHUTDOWN);
  harness_close(&h); /* while two requests are active */
}

static uint32_t check_threaded(struct harness_options *o)
{
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct client clients[3 * COPIES];
  uint32_t preemptions = 0;
  o->threaded = true;
  open_or_fail(&h, o);
  for (int i = 0; i < 3 * COPIES; i++)
    submit(&h, &clients[i], &ref->prompts[i % 3]);
  while (!lls_loop_idle(h.loop))
    lls_loop_events(h.loop, on_event, NULL);
  for (int i = 0; i < 3 * COPIES; i++) {
    assert_reference_text(&clients[i]);
    preemptions += clients[i].preemptions;
  }
  assert_memory_is_back(&h);
  harness_close(&h);
  reference_free(ref);
  return preemptions;
}

static void test_a_step_thread_does_the_same(void **state)
{
  (void)state;
  struct harness_options o = options("sarathi", NULL);
  assert_int_equal(check_threaded(&o), 0);
}

static void test_work_beside_the_device_changes_nothing(void **state)
{
  (void)state;
  static const char *const schedulers[] = {"fcfs", "sarathi", "mlfq", "random"};
  for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++) {
    struct harness_options o = options(schedulers[i], NULL);
    o.create_device = create_asynchronous;
    check_threaded(&o);
    o.device_units = 96; /* some are preempted */
    o.host_units = i % 2 == 0 ? 0 : 256;
    assert_true(check_threaded(&o) > 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fcfs_gives_the_reference_text),
      cmocka_unit_test(test_chunks_do_not_change_the_text),
      cmocka_unit_test(test_sharing_prefixes_does_not_change_the_text),
      cmocka_unit_test(test_recompute_does_not_change_the_text),
      cmocka_unit_test(test_swap_does_not_change_the_text),
      cmocka_unit_test(test_a_prompt_that_never_fits_ends_with_capacity),
      cmocka_unit_test(test_cancel_frees_everything_in_every_state),
      cmocka_unit_test(test_submissions_are_checked),
      cmocka_unit_test(test_a_step_thread_does_the_same),
      cmocka_unit_test(test_work_beside_the_device_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
