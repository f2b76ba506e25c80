/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: dense numbers for the names that fairness goes by, and what is counted of
 * each.
 *
 * Names come from clients, so their number is bounded: once all places are taken, the
 * tenant that has had nothing alive for longest gives up its place (and number), and what
 * was counted of it goes to "other". While all of them have something alive, newcomers
 * are "other" themselves. Number 0 is for requests that name no tenant.
 */
#ifndef LLS_API_TENANTS_H
#define LLS_API_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/api/api_params.h"

#define LLS_TENANTS_MAX 256 /* of them with a name: as many series in /metrics */

/* The first deadline of its own that a request missed. */
enum lls_verdict {
  LLS_ATTAINED,
  LLS_MISSED_TTFT,
  LLS_MISSED_TBT,
  LLS_MISSED_TPOT,
  LLS_MISSED_COMPLETION,
  LLS_MISSED_ALL, /* refused, rejected or failed */
  LLS_VERDICTS,
};

/* Counted for a class or a tenant. */
struct lls_group_stats {
  uint64_t requests, prompt_tokens, generated_tokens;
  uint64_t limited; /* requests that were refused for a limit of the tenant */
  uint64_t verdicts[LLS_VERDICTS]; /* of requests with deadlines */
};

struct lls_tenant {
  char name[LLS_TENANT_BYTES]; /* "" = the place is free */
  uint32_t live;
  uint64_t left; /* the clock of lls_tenants when its last request ended */
  struct lls_group_stats stats;
};

struct lls_tenants {
  /* [0] none, [1] "other", then those with a name */
  struct lls_tenant list[2 + LLS_TENANTS_MAX];
  uint64_t clock; /* requests that have ended */
};

void lls_tenants_init(struct lls_tenants *tenants);

/* The tenant's number, which stays its own until lls_tenants_leave, once for each. */
uint32_t lls_tenants_enter(struct lls_tenants *tenants, const char *name);
void lls_tenants_leave(struct lls_tenants *tenants, uint32_t number);

#endif
