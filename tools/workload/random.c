/* SPDX-License-Identifier: Apache-2.0 */
/* Random distributions; see random.h. */
#include "tools/workload/random.h"

#include <math.h>

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix(uint64_t z)
{
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

struct lls_random lls_random_at(uint64_t seed, enum lls_stream stream, uint64_t index)
{
  uint64_t of_stream = mix(seed + GOLDEN * ((uint64_t)stream + 1));
  return (struct lls_random){.key = mix(of_stream + GOLDEN * (index + 1))};
}

uint64_t lls_random_next(struct lls_random *random)
{
  return mix(random->key + GOLDEN * ++random->draws);
}

uint64_t lls_random_below(struct lls_random *random, uint64_t bound)
{
  return (uint64_t)(((unsigned __int128)lls_random_next(random) * bound) >> 64);
}

double lls_random_uniform(struct lls_random *random)
{
  return (double)(lls_random_next(random) >> 11) * 0x1p-53;
}

/* Box and Muller (1958). The second value of the pair is discarded, so a generator's
 * state is its key and counter. */
double lls_random_normal(struct lls_random *random)
{
  double radius = sqrt(-2 * log(1 - lls_random_uniform(random)));
  return radius * cos(2 * M_PI * lls_random_uniform(random));
}

/* Marsaglia and Tsang (2000); for a shape below 1 their U^(1/shape) step. */
double lls_random_gamma(struct lls_random *random, double shape, double scale)
{
  if (shape == 1)
    return -scale * log(1 - lls_random_uniform(random));
  if (shape < 1) {
    double boost = pow(1 - lls_random_uniform(random), 1 / shape);
    return boost * lls_random_gamma(random, shape + 1, scale);
  }
  double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = lls_random_normal(random), v = 1 + c * x;
    if (v <= 0)
      continue;
    v = v * v * v;
    double u = 1 - lls_random_uniform(random);
    if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
      return scale * d * v;
  }
}
