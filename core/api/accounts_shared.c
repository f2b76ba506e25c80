/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of tenants whose requests go to several replicas (core/batch/usage_table.h):
 * this one charges the use at all others, too, once a second. `used` leaks by the limit
 * as before, so that all replicas together admit as much as one would, and as much as
 * each admits within that second.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/accounts_internal.h"

static bool is_limited(const struct lls_tenant_limits *limits)
{
  return limits->requests_per_minute > 0 || limits->tokens_per_minute > 0 ||
         limits->requests_at_once > 0;
}

bool lls_accounts_are_limited(const struct lls_api *api)
{
  const struct lls_api_limits *limits = &api->config.limits;
  LLS_API_ON_MAIN(api);
  bool any = is_limited(&limits->tenant);
  for (size_t i = 0; i < limits->n_tenants; i++)
    any |= is_limited(&limits->tenants[i].limits);
  return any;
}

static bool has_changed(const struct lls_account *account)
{
  return account->own.requests != account->reported.requests ||
         account->own.tokens != account->reported.tokens ||
         account->own.inside != account->reported.inside;
}

size_t lls_accounts_report(struct lls_api *api, struct lls_tenant_usage **out)
{
  struct lls_account *account, *next;
  size_t n = 0;
  LLS_API_ON_MAIN(api);
  unsigned most = HASH_COUNT(api->accounts);
  *out = most > 0 ? malloc(most * sizeof **out) : NULL;
  HASH_ITER(hh, api->accounts, account, next)
  {
    account->own.inside = account->inside;
    if (*out == NULL || !has_changed(account))
      continue;
    struct lls_tenant_usage *usage = &(*out)[n++];
    *usage = account->own;
    strcpy(usage->tenant, account->name);
    account->reported = account->own;
  }
  return n;
}

void lls_accounts_report_again(struct lls_api *api)
{
  struct lls_account *account, *next;
  LLS_API_ON_MAIN(api);
  HASH_ITER(hh, api->accounts, account, next)
  account->reported.requests = -1;
}

/* Returns how much a sum has grown, which for a new account is all of it. It falls when
 * the row of a replica that has ended is deleted. */
static double growth(int64_t *known, int64_t now)
{
  int64_t more = now - *known;
  *known = now;
  return more > 0 ? (double)more : 0;
}

void lls_accounts_note_others(struct lls_api *api, const struct lls_tenant_usage *others,
                              size_t n, bool charge)
{
  struct lls_account *account, *next;
  LLS_API_ON_MAIN(api);
  HASH_ITER(hh, api->accounts, account, next)
  account->others.inside = 0;
  for (size_t i = 0; i < n; i++) {
    account = lls_account_get(api, others[i].tenant);
    if (account == NULL) /* without a limit here */
      continue;
    lls_account_put(account);
    double requests = growth(&account->others.requests, others[i].requests);
    double tokens = growth(&account->others.tokens, others[i].tokens);
    account->others.inside = others[i].inside;
    const struct lls_tenant_limits limits = lls_limits_of(api, others[i].tenant);
    account->requests.used += charge ? fmin(requests, limits.requests_per_minute) : 0;
    account->tokens.used += charge ? fmin(tokens, limits.tokens_per_minute) : 0;
  }
}
