/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of tests of the CPU kernels: new random numbers, and a device for each ISA
 * level. */
#ifndef LLS_KERNEL_FIXTURE_H
#define LLS_KERNEL_FIXTURE_H

#include "t/guarded.h"
#include "t/tap.h"

#include "core/device/device.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define LEVEL_NAME(name) #name,
static const char *const levels[] = {LLS_ISA_LEVELS(LEVEL_NAME, LEVEL_NAME)};
#define N_LEVELS (sizeof levels / sizeof *levels)

static uint64_t random_state = 1;

static inline uint32_t random_bits(void)
{
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(random_state >> 32);
}

/* low..high, both included */
static inline uint32_t random_between(uint32_t low, uint32_t high)
{
  return low + random_bits() % (high - low + 1);
}

/* A number in +-1. */
static inline float random_float(void)
{
  return (float)random_bits() * 0x1p-31f - 1.0f;
}

/* One in 64 is an outlier, as activations of transformers have them. */
static inline float random_activation(void)
{
  return random_bits() % 64 == 0 ? 30 * random_float() : random_float();
}

static inline void fill_random(float *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    x[i] = random_activation();
}

/* Has the level kernels of its own that are not products of weights? test_linear and
 * test_codes test the others. */
static inline bool has_own_kernels(const char *isa)
{
  const struct lls_cpu_level *level;
  return lls_cpu_level_find(isa, &level) == 0 &&
         (level->attention != NULL || level->rows != NULL || level->int8 != NULL);
}

/* Returns NULL if this CPU does not have the level. */
static inline struct lls_device *create_device(const char *isa, uint32_t threads,
                                               uint32_t max_rows, uint32_t max_columns)
{
  struct lls_device *device;
  const struct lls_device_options options = {
      .threads = threads,
      .max_rows = max_rows,
      .max_columns = max_columns,
      .max_sequences = max_rows,
      .isa = isa,
  };
  struct lls_error err;
  return lls_cpu_device_create(&options, &device, &err) == 0 ? device : NULL;
}

/* Calls a test with a device of each available level. */
static inline void each_level(uint32_t threads, uint32_t max_rows, uint32_t max_columns,
                              void (*test)(struct lls_device *))
{
  for (size_t i = 0; i < N_LEVELS; i++) {
    if (!has_own_kernels(levels[i]))
      continue;
    struct lls_device *device = create_device(levels[i], threads, max_rows, max_columns);
    assert_non_null(device);
    test(device);
    device->ops->destroy(device);
  }
}

/* Compares a value with the expected one; the message names the level. */
static inline void assert_near(const struct lls_device *device, const char *what,
                               size_t index, double got, double wanted, double tolerance)
{
  (void)device;
  if (fabs(got - wanted) <= tolerance)
    return;
  fail_msg("%s: [%zu] is %.9g, not %.9g (+- %.2g)", what, index, got, wanted, tolerance);
}

#endif
