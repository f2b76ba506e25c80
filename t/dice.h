/* SPDX-License-Identifier: Apache-2.0 */
/* A test's own random numbers, from a seed (splitmix64). They do not affect the numbers
 * that plugins draw, which come from the host. */
#ifndef LLS_T_DICE_H
#define LLS_T_DICE_H

#include <stdint.h>

struct dice {
  uint64_t state; /* initially the seed */
};

static inline uint64_t dice_next(struct dice *d)
{
  uint64_t z = (d->state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* A number between low and high, both included. */
static inline uint32_t dice(struct dice *d, uint32_t low, uint32_t high)
{
  return low + (uint32_t)(dice_next(d) % ((uint64_t)high - low + 1));
}

#endif
