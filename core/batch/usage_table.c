/* SPDX-License-Identifier: Apache-2.0 */
/* See usage_table.h. */
#include "core/batch/usage_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/batch/store_internal.h"

static int put_one(struct lls_store *store, const struct lls_tenant_usage *usage,
                   struct lls_error *err)
{
  return lls_database_run(
      &store->database, NULL, NULL, err,
      "INSERT INTO usage (tenant, replica, requests, tokens, inside, at) VALUES (?, ?, "
      "?, "
      "?, ?, unixepoch()) ON CONFLICT (tenant, replica) DO UPDATE SET requests = "
      "excluded.requests, tokens = excluded.tokens, inside = excluded.inside, at = "
      "excluded.at",
      "ttiii", usage->tenant, store->id, usage->requests, usage->tokens, usage->inside);
}

int lls_usage_put(struct lls_store *store, const struct lls_tenant_usage *own, size_t n,
                  struct lls_error *err)
{
  if (n == 0)
    return 0;
  int status = lls_database_begin(&store->database, err);
  if (status != 0)
    return status;
  for (size_t i = 0; i < n && status == 0; i++)
    status = put_one(store, &own[i], err);
  return lls_database_end(&store->database, status, err);
}

struct sums {
  struct lls_tenant_usage *list; /* (n) */
  size_t n, capacity;
};

static int add(void *context, const struct lls_result_row *row)
{
  struct sums *sums = context;
  if (sums->n == sums->capacity) {
    size_t capacity = sums->capacity > 0 ? sums->capacity * 2 : 16;
    struct lls_tenant_usage *more = realloc(sums->list, capacity * sizeof *more);
    if (more == NULL)
      return -ENOMEM;
    sums->list = more;
    sums->capacity = capacity;
  }
  struct lls_tenant_usage *usage = &sums->list[sums->n++];
  snprintf(usage->tenant, sizeof usage->tenant, "%s", lls_row_text(row, 0));
  usage->requests = lls_row_integer(row, 1);
  usage->tokens = lls_row_integer(row, 2);
  usage->inside = lls_row_integer(row, 3);
  return 0;
}

int lls_usage_of_others(struct lls_store *store, struct lls_tenant_usage **out, size_t *n,
                        struct lls_error *err)
{
  struct sums sums = {0};
  int status = lls_database_run(
      &store->database, add, &sums, err,
      "SELECT usage.tenant, sum(requests), sum(tokens), sum(CASE WHEN lease > "
      "unixepoch() "
      "THEN inside ELSE 0 END) FROM usage JOIN replicas ON replicas.id = usage.replica "
      "WHERE usage.replica <> ? GROUP BY usage.tenant",
      "t", store->id);
  if (status != 0) {
    free(sums.list);
    sums = (struct sums){0};
  }
  *out = sums.list;
  *n = sums.n;
  return status;
}
