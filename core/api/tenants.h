/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: maps the names by which fairness groups requests to small consecutive
 * numbers, and keeps the counters of each tenant.
 *
 * Names come from clients, so their number is bounded. When all places are taken, a new
 * tenant gets the place (and number) of the tenant without unfinished requests that has
 * been idle longest, whose counters are added to those of "other". While all tenants
 * have unfinished requests, a new tenant counts as "other". Number 0 is for requests
 * that name no tenant.
 */
#ifndef LLS_API_TENANTS_H
#define LLS_API_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/api/api_params.h"

#define LLS_TENANTS_MAX 256 /* tenants with a name, and so series in /metrics */

/* The first of its deadlines that a request missed. */
enum lls_verdict {
  LLS_ATTAINED,
  LLS_MISSED_TTFT,
  LLS_MISSED_TBT,
  LLS_MISSED_TPOT,
  LLS_MISSED_COMPLETION,
  LLS_MISSED_ALL, /* refused, rejected or failed */
  LLS_VERDICTS,
};

/* Counters of a class or a tenant. */
struct lls_group_stats {
  uint64_t requests, prompt_tokens, generated_tokens;
  uint64_t limited;                /* requests refused because of a tenant's limit */
  uint64_t verdicts[LLS_VERDICTS]; /* counts of requests with deadlines */
};

struct lls_tenant {
  char name[LLS_TENANT_BYTES]; /* "" = the place is free */
  uint32_t live;
  uint64_t left; /* the clock of lls_tenants when its last request ended */
  struct lls_group_stats stats;
};

struct lls_tenants {
  /* [0] requests without a tenant, [1] "other", then the named tenants */
  struct lls_tenant list[2 + LLS_TENANTS_MAX];
  uint64_t clock; /* requests that have ended */
};

void lls_tenants_init(struct lls_tenants *tenants);

/* Returns the tenant's number, which stays valid until lls_tenants_leave; one leave for
 * each enter. */
uint32_t lls_tenants_enter(struct lls_tenants *tenants, const char *name);
void lls_tenants_leave(struct lls_tenants *tenants, uint32_t number);

#endif
