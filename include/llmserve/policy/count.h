/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of cache managers for /metrics: units moved by the copies of a step. */
#ifndef LLS_POL_COUNT_H
#define LLS_POL_COUNT_H

#include <llmserve/host.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void lls_pol_count(const struct lls_host *host, const char *event,
                                 uint32_t n)
{
  if (n > 0)
    host->count(host->context, event, n);
}

/* Call it once a transaction is committed, since copies may be rolled back. */
static inline void lls_pol_count_copies(const struct lls_host *host,
                                        const struct lls_copy *copies, uint32_t n)
{
  static const char *const events[LLS_COPY_ASYNC + 1][LLS_COPY_DEVICE_TO_DEVICE + 1] = {
      {"units_swapped_out", "units_swapped_in", "units_copied"},
      {"units_offloaded", "units_uploaded", "units_copied"},
  };
  uint32_t units[LLS_COPY_ASYNC + 1][LLS_COPY_DEVICE_TO_DEVICE + 1];
  memset(units, 0, sizeof units);
  for (uint32_t i = 0; i < n; i++)
    units[copies[i].order][copies[i].kind]++;
  for (int order = 0; order <= LLS_COPY_ASYNC; order++)
    for (int kind = 0; kind <= LLS_COPY_DEVICE_TO_DEVICE; kind++)
      lls_pol_count(host, events[order][kind], units[order][kind]);
}

#ifdef __cplusplus
}
#endif

#endif
