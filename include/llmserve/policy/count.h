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

static inline int lls_pol_copy_way(const struct lls_copy *c)
{
  if (c->target_tier == LLS_TIER_HOST)
    return 0;
  return c->source_tier == LLS_TIER_HOST ? 1 : 2;
}

/* Units of a block in that form, 0 if the group has none such. */
static inline uint32_t lls_pol_block_units(const struct lls_host *host, uint32_t group,
                                           uint32_t form)
{
  const struct lls_group_form *f = lls_group_form_of(host->engine->groups[group], form);
  return f != NULL ? f->block_units : 0;
}

/* Once a transaction is committed: what is rolled back has not happened. Units are those
 * that a copy fills. */
static inline void lls_pol_count_copies(const struct lls_host *host,
                                        const struct lls_copy *copies, uint32_t n)
{
  /* by enum lls_copy_order: to the host, from the host, within the device */
  static const char *const events[LLS_COPY_ASYNC + 1][3] = {
      {"units_swapped_out", "units_swapped_in", "units_copied"},
      {"units_offloaded", "units_uploaded", "units_copied"},
  };
  uint32_t units[LLS_COPY_ASYNC + 1][3];
  memset(units, 0, sizeof units);
  for (uint32_t i = 0; i < n; i++)
    units[copies[i].order][lls_pol_copy_way(&copies[i])] +=
        lls_pol_block_units(host, copies[i].group, copies[i].target_form);
  for (int order = 0; order <= LLS_COPY_ASYNC; order++)
    for (int way = 0; way < 3; way++)
      lls_pol_count(host, events[order][way], units[order][way]);
}

#ifdef __cplusplus
}
#endif

#endif
