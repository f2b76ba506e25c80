/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts in a hash by tenant name; see accounts.h. An account without used limits and
 * without running requests equals a new one: such accounts are freed when there are
 * many. */
#include "core/api/accounts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/access.h"
#include "core/api/accounts_internal.h"

#define ACCOUNTS_MANY 4096 /* from this number on, idle accounts are freed */
#define MINUTE_S      60.0
#define RETRY_MOST_S  3600

struct lls_tenant_limits lls_limits_of(const struct lls_api *api, const char *name)
{
  const struct lls_api_limits *limits = &api->config.limits;
  LLS_API_ON_MAIN(api);
  for (size_t i = 0; i < limits->n_tenants; i++)
    if (strcmp(limits->tenants[i].name, name) == 0)
      return limits->tenants[i].limits;
  return limits->tenant;
}

/* ---- buckets ----------------------------------------------------------------------- */

/* Lowers bucket->used by the leak since the last call and returns it; 0 without a
 * limit. */
static double used(struct lls_bucket *bucket, int64_t limit, int64_t now_ns)
{
  double seconds = (double)(now_ns - bucket->at_ns) / 1e9;
  bucket->used -= seconds * (double)limit / MINUTE_S;
  if (bucket->used < 0 || limit == 0)
    bucket->used = 0;
  bucket->at_ns = now_ns;
  return bucket->used;
}

/* Returns the seconds until `excess` has leaked out of the bucket. */
static double seconds_until(double excess, int64_t limit)
{
  return excess > 0 ? excess * MINUTE_S / (double)limit : 0;
}

static unsigned retry_after(double seconds)
{
  return seconds < RETRY_MOST_S ? (unsigned)ceil(seconds) : RETRY_MOST_S;
}

/* ---- accounts ---------------------------------------------------------------------- */

static bool is_limited(const struct lls_tenant_limits *limits)
{
  return limits->requests_per_minute > 0 || limits->tokens_per_minute > 0 ||
         limits->requests_at_once > 0;
}

static void drop_idle(struct lls_api *api)
{
  struct lls_account *account, *next;
  int64_t now_ns = (int64_t)uv_hrtime();
  HASH_ITER(hh, api->accounts, account, next)
  {
    const struct lls_tenant_limits limits = lls_limits_of(api, account->name);
    if (account->references > 0 ||
        used(&account->requests, limits.requests_per_minute, now_ns) > 0 ||
        used(&account->tokens, limits.tokens_per_minute, now_ns) > 0)
      continue;
    HASH_DEL(api->accounts, account);
    free(account);
  }
}

static struct lls_account *add(struct lls_api *api, const char *name)
{
  if (HASH_COUNT(api->accounts) >= ACCOUNTS_MANY)
    drop_idle(api);
  struct lls_account *account = calloc(1, sizeof *account);
  if (account == NULL)
    return NULL;
  snprintf(account->name, sizeof account->name, "%s", name);
  HASH_ADD_STR(api->accounts, name, account);
  return account;
}

struct lls_account *lls_account_get(struct lls_api *api, const char *name)
{
  struct lls_account *account;
  const struct lls_tenant_limits limits = lls_limits_of(api, name);
  LLS_API_ON_MAIN(api);
  if (!is_limited(&limits))
    return NULL;
  HASH_FIND_STR(api->accounts, name, account);
  if (account == NULL)
    account = add(api, name);
  if (account != NULL)
    account->references++;
  return account;
}

void lls_account_put(struct lls_account *account)
{
  if (account == NULL)
    return;
  LLS_ON_MAIN_THREAD();
  LLS_CHECK(account->references > 0);
  account->references--;
}

void lls_accounts_free(struct lls_api *api)
{
  struct lls_account *account, *next;
  LLS_API_ON_MAIN(api);
  HASH_ITER(hh, api->accounts, account, next)
  {
    HASH_DEL(api->accounts, account);
    free(account);
  }
}

void lls_account_charge(struct lls_account *account, uint64_t tokens)
{
  LLS_ON_MAIN_THREAD();
  if (account == NULL)
    return;
  account->tokens.used += (double)tokens;
  account->own.tokens += (int64_t)tokens;
}

bool lls_account_has_tokens(struct lls_api *api, const char *name)
{
  const struct lls_tenant_limits limits = lls_limits_of(api, name);
  struct lls_account *account;
  LLS_API_ON_MAIN(api);
  HASH_FIND_STR(api->accounts, name, account);
  return account == NULL || limits.tokens_per_minute == 0 ||
         used(&account->tokens, limits.tokens_per_minute, (int64_t)uv_hrtime()) <
             (double)limits.tokens_per_minute;
}

/* ---- requests ---------------------------------------------------------------------- */

bool lls_accounts_count(const char *method, const char *route, bool dialect)
{
  static const char admin[] = "/admin";
  return dialect || (strcmp(method, "POST") == 0 && strchr(route, '*') == NULL &&
                     strncmp(route, admin, sizeof admin - 1) != 0);
}

void lls_accounts_refused(struct lls_api *api, const struct lls_http_exchange *exchange)
{
  uint32_t number = lls_tenants_enter(&api->tenants, lls_access_account(api, exchange));
  LLS_API_ON_MAIN(api);
  api->tenants.list[number].stats.limited++;
  lls_tenants_leave(&api->tenants, number);
}

static bool refuse(const char *code, double seconds, struct lls_api_error *error,
                   const char *what, int64_t limit)
{
  lls_api_fail(
      error, 429, code, NULL,
      "the limit of this client's tenant is reached: %s (%lld); try again in %u s", what,
      (long long)limit, retry_after(seconds));
  error->retry_after = retry_after(seconds);
  return false;
}

bool lls_accounts_allow(struct lls_api *api, const struct lls_http_exchange *exchange,
                        struct lls_api_error *error)
{
  const char *name = lls_access_account(api, exchange);
  const struct lls_tenant_limits limits = lls_limits_of(api, name);
  int64_t now_ns = (int64_t)uv_hrtime();
  struct lls_account *account = lls_account_get(api, name);
  LLS_API_ON_MAIN(api);
  if (account == NULL)
    return true;
  lls_account_put(account);
  int64_t rpm = limits.requests_per_minute, tpm = limits.tokens_per_minute;
  double requests = used(&account->requests, rpm, now_ns) + 1;
  double tokens = used(&account->tokens, tpm, now_ns);
  if (limits.requests_at_once > 0 &&
      account->inside + account->others.inside >= limits.requests_at_once)
    return refuse("too_many_requests_at_once", 1, error, "requests at once",
                  limits.requests_at_once);
  if (rpm > 0 && requests > (double)rpm)
    return refuse("rate_limit_exceeded", seconds_until(requests - (double)rpm, rpm),
                  error, "requests in a minute", rpm);
  if (tpm > 0 && tokens >= (double)tpm)
    return refuse("rate_limit_exceeded", seconds_until(tokens - (double)tpm + 1, tpm),
                  error, "tokens in a minute", tpm);
  return true;
}

/* Adds OpenAI's x-ratelimit-* headers for `what` ("requests" or "tokens"); a time is
 * written as "1.250s". */
static void tell(struct lls_http_exchange *exchange, const char *what, int64_t limit,
                 double used_of_it)
{
  char name[48], value[32];
  double left = (double)limit - used_of_it;
  if (limit == 0)
    return;
  snprintf(name, sizeof name, "x-ratelimit-limit-%s", what);
  snprintf(value, sizeof value, "%lld", (long long)limit);
  lls_http_add_header(exchange, name, value);
  snprintf(name, sizeof name, "x-ratelimit-remaining-%s", what);
  snprintf(value, sizeof value, "%.0f", left > 0 ? floor(left) : 0);
  lls_http_add_header(exchange, name, value);
  snprintf(name, sizeof name, "x-ratelimit-reset-%s", what);
  snprintf(value, sizeof value, "%.3fs", seconds_until(used_of_it, limit));
  lls_http_add_header(exchange, name, value);
}

void lls_accounts_enter(struct lls_api *api, struct lls_http_exchange *exchange)
{
  const char *name = lls_access_account(api, exchange);
  const struct lls_tenant_limits limits = lls_limits_of(api, name);
  struct lls_account *account = lls_account_get(api, name);
  LLS_API_ON_MAIN(api);
  LLS_CHECK(exchange->account == NULL);
  exchange->account = account;
  if (account == NULL)
    return;
  account->inside++;
  account->requests.used++;
  account->own.requests++;
  tell(exchange, "requests", limits.requests_per_minute, account->requests.used);
  tell(exchange, "tokens", limits.tokens_per_minute, account->tokens.used);
}

void lls_accounts_leave(struct lls_api *api, struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN(api);
  lls_account_leave(lls_account_take(exchange));
}

struct lls_account *lls_account_take(struct lls_http_exchange *exchange)
{
  struct lls_account *account = exchange->account;
  LLS_ON_MAIN_THREAD();
  exchange->account = NULL;
  return account;
}

void lls_account_leave(struct lls_account *account)
{
  LLS_ON_MAIN_THREAD();
  if (account == NULL)
    return;
  LLS_CHECK(account->inside > 0);
  account->inside--;
  lls_account_put(account);
}
