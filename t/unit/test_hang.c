/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of a hang: a callback that is under way at every check for long
 * enough. The watched thread is this one. */
#include "t/tap.h"

#include <string.h>

#include "core/loop/hang.h"
#include "core/instance/running_policy.h"

#define LIMIT 100

static struct lls_policy_host scheduler = {.name = "scheduler s"},
                              cache = {.name = "cache c"};
static const struct lls_policies policies = {.scheduler.host = &scheduler,
                                             .cache.host = &cache};

static void look(struct lls_hang *h, int64_t now_ns)
{
  lls_hang_look(h, &policies, now_ns, LIMIT);
}

/* A device's step: no callback is under way. */
static void test_a_thread_outside_of_plugins(void **state)
{
  (void)state;
  struct lls_hang h = {.trail = &lls_trail};
  look(&h, 0);
  look(&h, 10 * LIMIT);
  assert_false(h.hangs);
}

static void test_one_callback_that_does_not_return(void **state)
{
  (void)state;
  struct lls_hang h = {.trail = &lls_trail};
  uint32_t before = lls_trail_enter(LLS_KIND_SCHEDULER, "plan");
  look(&h, 1);
  look(&h, LIMIT);
  assert_false(h.hangs);
  look(&h, LIMIT + 1);
  assert_true(h.hangs);
  assert_non_null(strstr(h.why.text, "scheduler s: plan has not returned"));
  lls_trail_leave(&before);
  look(&h, LIMIT + 2);
  assert_false(h.hangs);
}

/* Each callback has returned, however many were under way at a check. */
static void test_many_callbacks_that_return(void **state)
{
  (void)state;
  struct lls_hang h = {.trail = &lls_trail};
  for (int64_t now_ns = 0; now_ns < 10 * LIMIT; now_ns += LIMIT / 2) {
    uint32_t before = lls_trail_enter(LLS_KIND_SCHEDULER, "plan");
    look(&h, now_ns);
    assert_false(h.hangs);
    lls_trail_leave(&before);
  }
}

static void test_who_of_two_is_to_blame(void **state)
{
  (void)state;
  for (int busy = 0; busy < 2; busy++) {
    struct lls_hang h = {.trail = &lls_trail};
    uint32_t outer = lls_trail_enter(LLS_KIND_SCHEDULER, "plan");
    uint32_t inner = lls_trail_enter(LLS_KIND_CACHE, "reserve");
    look(&h, 0);
    for (int i = 0; i < busy; i++) { /* the plan calls it again and again */
      lls_trail_leave(&inner);
      inner = lls_trail_enter(LLS_KIND_CACHE, "reserve");
    }
    look(&h, LIMIT);
    assert_true(h.hangs);
    assert_non_null(strstr(h.why.text, busy ? "scheduler s: plan" : "cache c: reserve"));
    lls_trail_leave(&inner);
    lls_trail_leave(&outer);
  }
}

static void test_no_limit(void **state)
{
  (void)state;
  struct lls_hang h = {.trail = &lls_trail};
  uint32_t before = lls_trail_enter(LLS_KIND_SCHEDULER, "plan");
  lls_hang_look(&h, &policies, 0, 0);
  lls_hang_look(&h, &policies, INT64_MAX, 0);
  assert_false(h.hangs);
  lls_trail_leave(&before);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_thread_outside_of_plugins),
      cmocka_unit_test(test_one_callback_that_does_not_return),
      cmocka_unit_test(test_many_callbacks_that_return),
      cmocka_unit_test(test_who_of_two_is_to_blame),
      cmocka_unit_test(test_no_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
