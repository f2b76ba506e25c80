/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hidden form costs is known before the first plan: a scheduler that charges a
 * thousand times of it does not take it where one that believes it free does.
 */
#include "t/tap.h"

#include "t/fixtures.h"
#include "t/harness.h"

/* How many of two prompts run in the first step, where both fit in hidden form alone. */
static uint64_t let_in(const char *const *parameters)
{
  struct lls_error err = {0};
  struct harness h;
  struct harness_options o = {
      .model = "t/data/models/opt",
      .element = LLS_F32,
      .max_tokens = 256,
      .max_sequences = 4,
      .max_requests = 8,
      .block_tokens = 8,
      .device_units = 24, /* 16 for each as K and V, 8 in hidden form */
      .scheduler = {"apt", parameters},
      .cache = {"hybrid", NULL},
      .predictor = {"none", NULL},
  };
  if (harness_open(&h, &o, &err) < 0)
    fail_msg("%s", err.text);
  int32_t prompt[60];
  for (int i = 0; i < 60; i++)
    prompt[i] = 10 + i;
  for (int i = 0; i < 2; i++) {
    uint64_t id;
    struct lls_submission s = harness_submission(prompt, 60, 2, NULL);
    assert_int_equal(lls_loop_submit(h.loop, &s, &id, &err), 0);
  }
  assert_true(lls_loop_step(h.loop) >= 0);
  struct lls_loop_status status;
  lls_loop_status(h.loop, &status);
  harness_close(&h);
  return status.batch_sequences_sum;
}

static void test_known_before_the_first_plan(void **state)
{
  (void)state;
  static const char *const free_of_charge[] = {"rho", "0", NULL};
  static const char *const dear[] = {"rho_scale", "1000", NULL};
  assert_int_equal(let_in(free_of_charge), 2);
  assert_int_equal(let_in(dear), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_before_the_first_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
