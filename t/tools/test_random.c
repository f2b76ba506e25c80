/* SPDX-License-Identifier: Apache-2.0 */
/* The generator and the distributions: fixed values, and moments within five standard
 * errors. With a fixed seed these tests always pass or always fail. */
#include "t/tap.h"

#include "tools/workload/lengths.h"
#include "tools/workload/random.h"

#include <math.h>

#define N 200000

static void assert_near(double value, double expected, double tolerance)
{
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%g is not %g +- %g", value, expected, tolerance);
}

static void test_a_draw_depends_on_its_key_alone(void **state)
{
  (void)state;
  struct lls_random a = lls_random_at(1, LLS_STREAM_INPUT, 7);
  struct lls_random b = lls_random_at(1, LLS_STREAM_INPUT, 7);
  uint64_t first = lls_random_next(&a);
  assert_true(first == lls_random_next(&b));
  assert_true(lls_random_next(&a) != first);
  struct lls_random others[] = {lls_random_at(2, LLS_STREAM_INPUT, 7),
                                lls_random_at(1, LLS_STREAM_OUTPUT, 7),
                                lls_random_at(1, LLS_STREAM_INPUT, 8)};
  for (size_t i = 0; i < 3; i++)
    assert_true(lls_random_next(&others[i]) != first);
}

/* "Same seed, same workload" depends on this: changing these values changes every
 * workload. */
static void test_values_do_not_change(void **state)
{
  (void)state;
  struct lls_random r = lls_random_at(0, LLS_STREAM_SHUFFLE, 0);
  assert_true(lls_random_next(&r) == UINT64_C(2558736989570252433));
}

static void test_below_is_even(void **state)
{
  (void)state;
  unsigned count[10] = {0};
  struct lls_random r = lls_random_at(3, LLS_STREAM_CLASS, 0);
  for (int i = 0; i < N; i++)
    count[lls_random_below(&r, 10)]++;
  for (int i = 0; i < 10; i++)
    assert_near(count[i], N / 10.0, 5 * sqrt(N * 0.09));
}

struct moments {
  double mean, variance;
};

static struct moments of_gamma(double shape, double scale)
{
  struct moments m = {0, 0};
  struct lls_random r = lls_random_at(4, LLS_STREAM_ARRIVAL, 0);
  for (int i = 0; i < N; i++) {
    double x = lls_random_gamma(&r, shape, scale);
    assert_true(x >= 0);
    double d = x - m.mean;
    m.mean += d / (i + 1);
    m.variance += d * (x - m.mean);
  }
  m.variance /= N;
  return m;
}

/* Variance of the variance of a gamma: sigma^4 (2 + 6/shape) / n. */
static void test_gamma_has_its_moments(void **state)
{
  (void)state;
  const double shapes[] = {0.04, 0.5, 1, 3, 25};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    double k = shapes[i], scale = 2;
    struct moments m = of_gamma(k, scale);
    double variance = k * scale * scale;
    assert_near(m.mean, k * scale, 5 * sqrt(variance / N));
    assert_near(m.variance, variance, 5 * variance * sqrt((2 + 6 / k) / N));
  }
}

static struct moments of_lengths(const char *text, uint32_t *least, uint32_t *most)
{
  struct moments m = {0, 0};
  struct lls_lengths *lengths;
  struct lls_error err = {0};
  if (lls_lengths_parse(text, &lengths, &err) != 0)
    fail_msg("%s", err.text);
  *least = UINT32_MAX;
  *most = 0;
  for (int i = 0; i < N; i++) {
    struct lls_random r = lls_random_at(5, LLS_STREAM_INPUT, (uint64_t)i);
    uint32_t x = lls_lengths_draw(lengths, &r);
    double d = x - m.mean;
    m.mean += d / (i + 1);
    m.variance += d * (x - m.mean);
    *least = x < *least ? x : *least;
    *most = x > *most ? x : *most;
  }
  m.variance /= N;
  lls_lengths_free(lengths);
  return m;
}

static void test_lengths_have_their_moments(void **state)
{
  (void)state;
  uint32_t least, most;
  struct moments m = of_lengths("fixed:77", &least, &most);
  assert_int_equal(least, 77);
  assert_int_equal(most, 77);
  m = of_lengths("uniform:512..1024", &least, &most);
  assert_int_equal(least, 512);
  assert_int_equal(most, 1024);
  assert_near(m.mean, 768, 5 * 148 / sqrt(N));
  m = of_lengths("lognormal:222.76,256.36", &least, &most);
  assert_near(m.mean, 222.76, 5 * 256.36 / sqrt(N));
  assert_near(sqrt(m.variance), 256.36, 0.05 * 256.36);
  m = of_lengths("exponential:100", &least, &most);
  assert_near(m.mean, 100, 5 * 100 / sqrt(N) + 0.5);
  of_lengths("lognormal:222,256,16..2048", &least, &most);
  assert_true(least >= 16 && most <= 2048);
}

static void test_a_mixture_has_its_weights(void **state)
{
  (void)state;
  uint32_t least, most;
  struct moments m = of_lengths("0.7*fixed:100+0.3*fixed:1000", &least, &most);
  assert_near(m.mean, 370, 5 * 413 / sqrt(N));
  assert_int_equal(least, 100);
  assert_int_equal(most, 1000);
}

static void test_a_column_is_drawn_from(void **state)
{
  (void)state;
  char text[8192];
  uint32_t least, most;
  snprintf(text, sizeof text, "file:%s:num_decode_tokens",
           source_path("t/data/traces/lengths.csv"));
  struct moments m = of_lengths(text, &least, &most);
  assert_int_equal(least, 711);
  assert_int_equal(most, 918);
  assert_near(m.mean, (918 + 905 + 711) / 3.0, 5 * 95 / sqrt(N));
}

static void test_bad_lengths_are_refused(void **state)
{
  (void)state;
  const char *const bad[] = {"",
                             "17",
                             "fixed:",
                             "fixed:0",
                             "fixed:1.5",
                             "fixed:1,2..3",
                             "uniform:9..3",
                             "uniform:5",
                             "lognormal:5",
                             "lognormal:5,",
                             "lognormal:5,-1",
                             "lognormal:5,3,",
                             "exponential:nan",
                             "fixed:1+0.5*fixed:2",
                             "0.5*",
                             "weibull:3",
                             "uniform:1..99999999999",
                             "file:/nowhere.csv:x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct lls_lengths *lengths;
    struct lls_error err = {0};
    if (lls_lengths_parse(bad[i], &lengths, &err) == 0)
      fail_msg("'%s' was taken", bad[i]);
    assert_true(err.text[0] != '\0');
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_draw_depends_on_its_key_alone),
      cmocka_unit_test(test_values_do_not_change),
      cmocka_unit_test(test_below_is_even),
      cmocka_unit_test(test_gamma_has_its_moments),
      cmocka_unit_test(test_lengths_have_their_moments),
      cmocka_unit_test(test_a_mixture_has_its_weights),
      cmocka_unit_test(test_a_column_is_drawn_from),
      cmocka_unit_test(test_bad_lengths_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
