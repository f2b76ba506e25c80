/* SPDX-License-Identifier: Apache-2.0 */
/* Minimum and maximum of two numbers. */
#ifndef LLS_POL_NUMBER_H
#define LLS_POL_NUMBER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline uint32_t lls_pol_min(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

static inline uint32_t lls_pol_max(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

#ifdef __cplusplus
}
#endif

#endif
