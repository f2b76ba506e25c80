/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for the smaller and the larger of two values; each argument is evaluated
 * once. */
#ifndef LLS_BASE_LEAST_H
#define LLS_BASE_LEAST_H

#include <stddef.h>
#include <stdint.h>

#define LLS_LEAST_OF(TYPE, NAME)                                                         \
  static inline TYPE lls_least_##NAME(TYPE a, TYPE b)                                    \
  {                                                                                      \
    return a < b ? a : b;                                                                \
  }                                                                                      \
  static inline TYPE lls_most_##NAME(TYPE a, TYPE b)                                     \
  {                                                                                      \
    return a > b ? a : b;                                                                \
  }

LLS_LEAST_OF(uint32_t, u32)
LLS_LEAST_OF(uint64_t, u64)
LLS_LEAST_OF(int64_t, i64)
LLS_LEAST_OF(size_t, size)
LLS_LEAST_OF(double, f64)

#endif
