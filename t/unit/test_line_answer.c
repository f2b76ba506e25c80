/* SPDX-License-Identifier: Apache-2.0 */
/* A batch line that always fails or is refused runs a bounded number of times. */
#include "t/tap.h"

#include "core/api/store/line_answer.h"

/* Returns how often a line with this answer runs; *sum_ns is the sum of its delays. */
static uint32_t count_tries(unsigned status, int64_t *sum_ns)
{
  uint32_t tries = 1;
  int64_t delay_ns;
  *sum_ns = 0;
  for (; (delay_ns = lls_line_retry(status, tries)) > 0; tries++) {
    assert_true(tries < 1000);
    *sum_ns += delay_ns;
  }
  return tries;
}

static void answers_about_the_line_stand(void **state)
{
  const unsigned all[] = {200, 400, 404, 413, 422, 504};
  int64_t sum_ns;
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    assert_int_equal(count_tries(all[i], &sum_ns), 1);
}

static void failures_are_tried_a_few_times(void **state)
{
  int64_t sum_ns;
  (void)state;
  assert_int_equal(count_tries(500, &sum_ns), 3);
  assert_int_equal(sum_ns, 3 * LLS_LINE_PAUSE_NS);
}

static void refusals_are_tried_for_half_an_hour(void **state)
{
  const unsigned all[] = {429, 503};
  int64_t sum_ns;
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    count_tries(all[i], &sum_ns);
    assert_in_range(sum_ns / LLS_LINE_PAUSE_NS, 25 * 60, 35 * 60);
    assert_int_equal(lls_line_retry(all[i], 1), LLS_LINE_PAUSE_NS);
    assert_int_equal(lls_line_retry(all[i], 20), 60 * LLS_LINE_PAUSE_NS);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_about_the_line_stand),
      cmocka_unit_test(failures_are_tried_a_few_times),
      cmocka_unit_test(refusals_are_tried_for_half_an_hour),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
