/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetching for tiles that spread it (linear.h): each step prefetches a few lines.
 * All at once would delay the loads that the tile needs now. */
#ifndef LLS_CPU_AHEAD_H
#define LLS_CPU_AHEAD_H

#include "kernels/cpu/linear.h"
#include "kernels/cpu/simd.h"

/* Sets how many lines each step prefetches, so that `steps` of them cover all. */
INLINE void share_out(const struct lls_ahead ahead[LLS_AHEAD], size_t steps,
                      size_t share[LLS_AHEAD])
{
  for (int i = 0; i < LLS_AHEAD; i++)
    share[i] = ahead[i].lines / steps + 1;
}

INLINE void ask(struct lls_ahead ahead[LLS_AHEAD], const size_t share[LLS_AHEAD])
{
  UNROLL
  for (int i = 0; i < LLS_AHEAD; i++) {
    for (size_t n = share[i]; n > 0 && ahead[i].lines > 0; n--, ahead[i].lines--) {
      prefetch_l2(ahead[i].at);
      ahead[i].at += 64;
    }
  }
}

#endif
