/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: sessions whose blocks a cache manager is asked to keep or fetch. */
#include "t/tap.h"

#include "t/watched_sessions.h"

static struct lls_loop_status status_of(struct harness *h)
{
  struct lls_loop_status s;
  lls_loop_status(h->loop, &s);
  return s;
}

/* Without a scheduler that plans for sessions, the one that called a tool is kept for
 * lease_tool, until its next answer. */
static void test_a_call_is_kept(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  assert_int_equal(seen.retains, 0); /* in the next step */
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.retains, 1);
  assert_int_equal(seen.lease.session, 1);
  assert_int_equal(seen.lease.tier, LLS_TIER_DEVICE);
  assert_int_equal(seen.lease.n_keys, 3);
  assert_int_equal(seen.lease.until_ns, seen.first.ended_ns + 60 * S);
  assert_int_equal(status_of(&h).sessions_retained, 1);
  assert_int_equal(status_of(&h).sessions_leased, 1);
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 50);
  assert_int_equal(seen.retains, 3); /* the end of the first one, and another */
  assert_int_equal(status_of(&h).sessions_leased, 1);
  assert_int_equal(seen.first.on_device, 24);
  harness_close(&h);
}

static void test_a_scheduler_decides(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.plans_kind = LLS_PLAN_FETCH;
  seen.plans_tier = LLS_TIER_DEVICE;
  run_turn(&h, "agent", 1);
  run_turn(&h, NULL, 50);
  assert_in_range(seen.fetches, 1, 100);
  assert_int_equal(seen.retains, 0); /* it plans for sessions: nothing is usual */
  assert_int_equal(seen.first.on_device, 24);
  seen.plans_kind = LLS_PLAN_RETAIN;
  seen.plans_until_ns = INT64_MAX;
  run_turn(&h, NULL, 50);
  assert_in_range(seen.retains, 1, 100);
  assert_int_equal(seen.lease.until_ns, INT64_MAX);
  assert_int_equal(seen.first.until_ns, INT64_MAX);
  assert_int_equal(status_of(&h).sessions_leased, 1);
  seen.plans_until_ns = 0;
  run_turn(&h, NULL, 50);
  assert_int_equal(status_of(&h).sessions_leased, 0);
  assert_int_equal(status_of(&h).plans_refused, 0);
  harness_close(&h);
}

/* The core counts what the manager refuses, or cannot do; requests do not suffer. */
static void test_a_lease_is_refused(void **state)
{
  (void)state;
  struct harness h;
  const int answers[] = {-ENOSPC, -EBUSY, -ENOTSUP, 25};
  for (uint32_t i = 0; i < 5; i++) {
    seen.no_pair = i == 4;
    open_watched(&h, 1);
    run_turn(&h, "agent", 1);
    seen.answers = i < 4 ? answers[i] : 0;
    seen.plans_kind = LLS_PLAN_RETAIN;
    seen.plans_until_ns = INT64_MAX;
    run_turn(&h, NULL, 50);
    struct lls_loop_status s = status_of(&h);
    assert_in_range(s.items_refused, 1, 100);
    assert_int_equal(s.sessions_leased, 0);
    assert_int_equal(s.plans_refused, 0);
    assert_int_equal(s.policies.cache.breaches > 0, i == 3); /* more than it has */
    harness_close(&h);
  }
  seen.no_pair = false;
}

/* A tenant with more leased tokens makes room for one with fewer, but not the other way
 * round. */
static void test_tenants_divide_leases(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  seen.has_two = true;
  run_turn_of(&h, "ann", 2, "a", 1);  /* session 1 */
  run_turn_of(&h, "ann", 2, "b", 30); /* session 2 */
  run_turn_of(&h, "bob", 3, "c", 60); /* session 3 */
  assert_int_equal(seen.leased[0], 1);
  assert_int_equal(seen.leased[1], 2);
  run_turn_of(&h, "bob", 3, "d", 90); /* session 4 */
  assert_int_equal(seen.leased[0], 3);
  assert_int_equal(seen.leased[1], 2);
  run_turn_of(&h, "", 0, NULL, 120);
  assert_int_equal(seen.leased[0], 3);
  assert_int_equal(seen.leased[1], 2);
  assert_int_equal(status_of(&h).sessions_leased, 2);
  harness_close(&h);
}

/* A bad item costs the whole plan, and requests still end. */
static void test_a_bad_item(void **state)
{
  (void)state;
  struct harness h;
  open_watched(&h, 1);
  run_turn(&h, "agent", 1);
  seen.plans_kind = LLS_PLAN_RETAIN;
  seen.plans_tier = LLS_TIER_DISK + 1;
  seen.retains = 0;
  run_turn(&h, NULL, 50);
  assert_in_range(status_of(&h).plans_refused, 1, 100);
  assert_in_range(seen.retains, 0, 1); /* the usual lease */
  harness_close(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_call_is_kept),
      cmocka_unit_test(test_a_scheduler_decides),
      cmocka_unit_test(test_a_lease_is_refused),
      cmocka_unit_test(test_tenants_divide_leases),
      cmocka_unit_test(test_a_bad_item),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
