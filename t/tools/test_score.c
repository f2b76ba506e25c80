/* SPDX-License-Identifier: Apache-2.0 */
/* The measures of llmserve-perplexity on distributions whose values are known. */
#include "t/tap.h"

#include "tools/perplexity/score.h"

#include <math.h>
#include <stddef.h>

static void assert_near(double value, double expected)
{
  if (!(fabs(value - expected) <= 1e-6))
    fail_msg("%g is not %g", value, expected);
}

static void test_a_mean_has_its_error(void **state)
{
  (void)state;
  struct lls_mean m = {0};
  lls_mean_add(&m, 1000001);
  assert_near(m.mean, 1000001);
  assert_true(isnan(lls_mean_error(&m)));
  lls_mean_add(&m, 1000002);
  lls_mean_add(&m, 1000006);
  assert_near(m.mean, 1000003);
  assert_near(lls_mean_error(&m), sqrt(7.0 / 3)); /* variance (4 + 1 + 9) / 2 */
}

static void test_an_even_guess_costs_ln_of_the_vocabulary(void **state)
{
  (void)state;
  const float even[] = {5, 5, 5, 5};
  struct lls_score s = {0};
  lls_score_add(&s, even, NULL, 4, 2);
  assert_near(s.loss.mean, log(4));
  assert_int_equal(s.divergence.n, 0);
}

/* p = 1/2, 1/4, 1/4 and q = 1/4, 1/2, 1/4, which any constant may be added to. */
static void test_divergence_is_of_the_model_from_the_reference(void **state)
{
  (void)state;
  const float half = (float)log(0.5), quarter = (float)log(0.25);
  const float p[] = {half, quarter, quarter};
  const float q[] = {quarter + 300, half + 300, quarter + 300};
  struct lls_score s = {0};
  lls_score_add(&s, q, p, 3, 0);
  assert_near(s.loss.mean, log(4));
  assert_near(s.reference_loss.mean, log(2));
  assert_near(s.difference.mean, log(2));
  assert_true(fabs(s.divergence.mean - 0.25 * log(2)) < 1e-4); /* 300 in f32 */
  assert_true(s.agreement.mean == 0);
  lls_score_add(&s, p, p, 3, 0);
  assert_true(s.agreement.mean == 0.5);
}

/* KL(p || q) is not KL(q || p): p = 3/4, 1/4 and q = 1/2, 1/2. */
static void test_divergence_has_its_direction(void **state)
{
  (void)state;
  const float p[] = {(float)log(3), 0}, q[] = {0, 0};
  struct lls_score s = {0};
  lls_score_add(&s, q, p, 2, 0);
  assert_near(s.divergence.mean, 0.75 * log(1.5) + 0.25 * log(0.5));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_mean_has_its_error),
      cmocka_unit_test(test_an_even_guess_costs_ln_of_the_vocabulary),
      cmocka_unit_test(test_divergence_is_of_the_model_from_the_reference),
      cmocka_unit_test(test_divergence_has_its_direction),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
