/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as schedulers and cache managers see them: which ones, and for how long. */
#include "t/tap.h"

#include <stdio.h>
#include <time.h>

#include "core/loop/sessions.h"
#include "t/watched_sessions.h"

static void test_policies_see_sessions(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.requests, 1);
  assert_int_equal(seen.n_sessions, 0);
  assert_int_equal(seen.last_released, 1);
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.requests, 1);
  assert_int_equal(seen.last_released, 0);
  assert_int_equal(seen.n_sessions, 1);
  assert_string_equal(seen.first.name, "agent");
  assert_int_equal(seen.first.ended_by, LLS_SESSION_TOOL_CALL);
  assert_int_equal(seen.first.n_keys, 3); /* 20 + 5 computed tokens in blocks of 8 */
  assert_int_equal(seen.first.tokens, 24);
  const struct lls_key before = seen.first_key;
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.n_sessions, 0); /* its request is alive */
  assert_int_equal(seen.requests, 2);
  run_turn(&h, "agent", 90);
  run_turn(&h, NULL, 50);
  assert_false(lls_key_equal(&seen.first_key, &before));
  assert_true(seen.first.returns_ns > seen.first.ended_ns); /* "search" was learnt */
  assert_int_equal(seen.ended, 0);
  harness_close(&h);
  assert_int_equal(seen.ended, 1);
}

/* A server without requests plans for its sessions when an answer has left one, and again
 * at the time that the scheduler names. */
static void test_an_idle_server_plans_for_sessions(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.plans_kind = LLS_PLAN_FETCH;
  seen.plans_tier = LLS_TIER_DEVICE;
  seen.plans_again_ns = S / 1000;
  run_turn(&h, "agent", 1);
  uint32_t plans = seen.plans;
  assert_int_equal(seen.fetches, 0);
  assert_true(lls_loop_step(h.loop) >= 0);
  assert_int_equal(seen.plans, plans + 1);
  assert_int_equal(seen.fetches, 1);
  seen.plans_again_ns = 0; /* the second time it names none */
  assert_true(lls_loop_idle_ns(h.loop) <= S / 1000);
  for (int64_t ns; (ns = lls_loop_idle_ns(h.loop)) != LLS_NEVER;) {
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    assert_true(lls_loop_step(h.loop) >= 0);
  }
  assert_int_equal(seen.plans, plans + 2);
  assert_int_equal(seen.fetches, 2);
  harness_close(&h);
}

/* The instance that had the session before does not show it any more. */
static void test_a_session_moves(void **state)
{
  (void)state;
  struct harness h;
  struct lls_loop_status status;
  uint32_t role;
  open_watched(&h, 2);
  run_turn(&h, "agent", 1);
  run_turn(&h, "agent", 100); /* nothing to find: the other instance had fewer */
  lls_loop_instance_status(h.loop, 1, &role, &status);
  assert_int_equal(status.arrived, 1);
  run_turn(&h, NULL, 1); /* on the first one, which has its beginning */
  lls_loop_instance_status(h.loop, 0, &role, &status);
  assert_int_equal(status.arrived, 2);
  assert_int_equal(seen.n_sessions, 0);
  harness_close(&h);
  assert_int_equal(seen.ended, 2); /* each instance's part */
}

static void note_there(void *context, const struct lls_session_row *row)
{
  *(uint32_t *)context = row->there[LLS_TIER_DEVICE];
}

static uint32_t there(struct harness *h)
{
  uint32_t tokens = UINT32_MAX;
  lls_loop_each_session(h->loop, note_there, &tokens);
  return tokens;
}

/* Blocks of an idle session leave for other requests', and its part says so. */
static void test_blocks_that_left(void **state)
{
  (void)state;
  struct harness h;
  struct harness_options o = client_options("fcfs");
  o.cache = (struct harness_policy){"paged", NULL};
  open_or_fail(&h, &o);
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 1);
  assert_in_range(there(&h), 20, 26);
  for (int32_t i = 2; i < 200 && there(&h) > 0; i++)
    run_turn(&h, NULL, i);
  assert_int_equal(there(&h), 0);
  harness_close(&h);
}

/* Keys of blocks are bounded, too: sessions with many of them make room. */
static void test_keys_are_bounded(void **state)
{
  (void)state;
  struct harness h;
  struct harness_options o = client_options("fcfs");
  uint32_t alive, idle;
  o.cache = (struct harness_policy){"paged", NULL};
  o.leases.key_bytes = 10 * sizeof(struct lls_key);
  open_or_fail(&h, &o);
  for (int32_t i = 0; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    run_turn(&h, name, 30 * i);
  }
  lls_loop_count_sessions(h.loop, &alive, &idle);
  assert_int_equal(alive, 0);
  assert_in_range(idle, 1, 3); /* a turn leaves four blocks */
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_policies_see_sessions),
      cmocka_unit_test(test_an_idle_server_plans_for_sessions),
      cmocka_unit_test(test_a_session_moves),
      cmocka_unit_test(test_blocks_that_left),
      cmocka_unit_test(test_keys_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
