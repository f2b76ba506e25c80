/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the requests and tokens that tenants have used at each of the processes that
 * share a database: numbers that only grow, so that a reader takes the difference to its
 * last reading. All functions run on [store].
 */
#ifndef LLS_BATCH_USAGE_TABLE_H
#define LLS_BATCH_USAGE_TABLE_H

#include "core/batch/store.h"

#define LLS_USAGE_TENANT 130 /* bytes of a tenant's name */

struct lls_tenant_usage {
  char tenant[LLS_USAGE_TENANT];
  int64_t requests, tokens; /* since the start of the process */
  int64_t inside;           /* requests that run now */
};

/* Writes the rows of this process. */
int lls_usage_put(struct lls_store *store, const struct lls_tenant_usage *own, size_t n,
                  struct lls_error *err);

/* Reads the sums over all other processes into a new array, which the caller frees; in
 * `inside` only those that are alive count. */
int lls_usage_of_others(struct lls_store *store, struct lls_tenant_usage **out, size_t *n,
                        struct lls_error *err);

#endif
