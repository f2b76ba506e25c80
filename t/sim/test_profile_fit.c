/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler's fit to steps with the times of a known device: it must recover this
 * device, as measured on other steps, with and without noise in the times.
 */
#include "t/tap.h"

#include <math.h>

#include "core/device/sampling.h"
#include "tools/profile/fit.h"

#define STEPS 400

static const struct lls_shape_limits limits = {.max_rows = 512,
                                               .max_sequences = 32,
                                               .max_context = 2048,
                                               .cache_tokens = 32768,
                                               .block_tokens = 16};

static const struct lls_cost_shape shape = {.ranks = 1,
                                            .layers = 8,
                                            .hidden = 512,
                                            .all_weights = 22e6,
                                            .picked_weights = 7e6,
                                            .weight_bytes = 2,
                                            .pair_flops = 16384,
                                            .token_bytes = 16384};

/* A machine of 10 GB/s and 100 GFLOP/s with some overhead. */
static struct lls_cost_rates truth(void)
{
  const struct lls_profile p = {
      .device = {.bandwidth = 10, .matrix = 0.1},
      .efficiency = {1, 0.9, 0.4, 0.8, 0.5, 1, 1, 0, 0},
      .overhead = {.step = 300000, .sequence = 20000, .token = 15000},
  };
  struct lls_cost_rates rates;
  lls_cost_rates_init(&rates, &p, &shape);
  return rates;
}

static struct lls_profile_point measure(uint64_t index, double noise)
{
  struct lls_cost_rates rates = truth();
  struct lls_profile_point m = {
      .shape.parts = calloc(limits.max_sequences, sizeof(struct lls_shape_part))};
  assert_non_null(m.shape.parts);
  lls_shape_draw(&limits, 7, index, &m.shape);
  assert_true(m.shape.n > 0);
  double off = 2 * lls_sampling_uniform(99, (uint32_t)index) - 1;
  m.ns = lls_shape_ns(&rates, &m.shape) * (1 + noise * off);
  return m;
}

/* The mean relative error, on other steps, of a fit to steps with this noise. */
static double error_of(double noise)
{
  static struct lls_profile_point steps[STEPS];
  struct lls_profile found = {.device = {.name = NULL}};
  struct lls_cost_rates rates;
  struct lls_error err = {0};
  double sum = 0;
  for (uint64_t i = 0; i < STEPS; i++)
    steps[i] = measure(i, noise);
  if (lls_profile_fit(steps, STEPS, &shape, limits.max_rows, NULL, &found, &err) < 0)
    fail_msg("%s", err.text);
  lls_cost_rates_init(&rates, &found, &shape);
  for (uint64_t i = 0; i < STEPS; i++) {
    struct lls_profile_point unseen = measure(STEPS + i, 0);
    sum += fabs(lls_shape_ns(&rates, &unseen.shape) / unseen.ns - 1) / STEPS;
    free(unseen.shape.parts);
    free(steps[i].shape.parts);
  }
  return sum;
}

static void test_known_device_is_found_again(void **state)
{
  (void)state;
  double exact = error_of(0), noisy = error_of(0.2);
  print_message("# mean error %.4f, with 20 %% of noise %.4f\n", exact, noisy);
  assert_true(exact < 0.02);
  assert_true(noisy < 0.05);
}

/* Few steps, as from a short measurement, and a datasheet that is a third too high. */
static void test_the_kind_of_device_settles_what_few_steps_leave_open(void **state)
{
  enum { FEW = 24 };
  static struct lls_profile_point steps[FEW];
  const struct lls_profile like = {
      .device = {.bandwidth = 13, .matrix = 0.13},
      .efficiency = {1, 0.9, 0.4, 0.8, 0.5, 1, 1, 0, 0},
      .overhead = {.step = 300000, .sequence = 20000},
  };
  struct lls_profile alone = {.device = {.name = NULL}}, found = alone;
  struct lls_error err = {0};
  (void)state;
  for (uint64_t i = 0; i < FEW; i++)
    steps[i] = measure(i, 0.05);
  assert_true(lls_profile_fit(steps, FEW, &shape, limits.max_rows, NULL, &alone, &err) ==
              0);
  assert_true(lls_profile_fit(steps, FEW, &shape, limits.max_rows, &like, &found, &err) ==
              0);
  double reading = found.device.bandwidth * found.efficiency.weights;
  double without = alone.device.bandwidth * alone.efficiency.weights;
  print_message("# weights at %.2f GB/s of 8, alone at %.2f; steps %.0f us of 300\n",
                reading, without, (double)found.overhead.step / 1e3);
  assert_true(reading > 0.7 * 8 && reading < 1.4 * 8);
  assert_true(found.overhead.step > 200000 && found.overhead.step < 400000);
  for (uint64_t i = 0; i < FEW; i++)
    free(steps[i].shape.parts);
}

static void test_shapes_keep_to_the_limits(void **state)
{
  (void)state;
  uint32_t kinds[3] = {0};
  for (uint64_t i = 0; i < 3000; i++) {
    struct lls_profile_point m = measure(i, 0);
    uint32_t rows = 0, blocks = 0;
    for (uint32_t k = 0; k < m.shape.n; k++) {
      const struct lls_shape_part *part = &m.shape.parts[k];
      rows += part->tokens;
      blocks += (part->context + part->tokens + 15) / 16;
      assert_true(part->tokens + part->context < limits.max_context + 1);
    }
    assert_true(m.shape.n <= limits.max_sequences && rows <= limits.max_rows);
    assert_true(blocks <= limits.cache_tokens / 16);
    kinds[m.shape.kind]++;
    free(m.shape.parts);
  }
  assert_true(kinds[0] == 1000 && kinds[1] == 1000 && kinds[2] == 1000);
}

static void test_nothing_measured_is_an_error(void **state)
{
  (void)state;
  struct lls_profile found;
  struct lls_error err = {0};
  assert_true(lls_profile_fit(NULL, 0, &shape, 512, NULL, &found, &err) < 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_device_is_found_again),
      cmocka_unit_test(test_the_kind_of_device_settles_what_few_steps_leave_open),
      cmocka_unit_test(test_shapes_keep_to_the_limits),
      cmocka_unit_test(test_nothing_measured_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
