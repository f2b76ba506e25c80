/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of tenants ([tenants] and [tenant.NAME]) and what each has used of them.
 *
 * The tenant of a request is that of its API key; if no keys are set, the tenant named
 * by the header x-gateway-inference-fairness-id, or "" without the header. Requests a
 * minute and tokens a minute are a leaky bucket each: `used` falls by the limit in a
 * minute, and a request is admitted while `used` is below the limit. Tokens are counted
 * as they are computed, so an answer may exceed the limit; later requests then wait
 * until `used` has fallen. A reload changes the limits and keeps `used`. Replicas that
 * share a database charge each other's use (accounts_shared.c).
 */
#ifndef LLS_API_ACCOUNTS_H
#define LLS_API_ACCOUNTS_H

#include "core/api/api_internal.h"
#include "core/batch/usage_table.h"

struct lls_account;

/* [main] Returns the account of the tenant `name` with a reference, which
 * lls_account_put releases. NULL if the tenant has no limit, or if out of memory. */
struct lls_account *lls_account_get(struct lls_api *api, const char *name);
void lls_account_put(struct lls_account *account);

/* [main] Frees all accounts at shutdown. */
void lls_accounts_free(struct lls_api *api);

/* [any] True if a route's requests count towards their tenant's limits: only those that
 * start work do, not those that read or cancel. dialect: the route has one. */
bool lls_accounts_count(const char *method, const char *route, bool dialect);

/* [main] Returns true if the tenant's limits let the request begin now; else sets
 * *error to a 429. */
bool lls_accounts_allow(struct lls_api *api, const struct lls_http_exchange *exchange,
                        struct lls_api_error *error);

/* [main] Counts a request that lls_accounts_allow refused. */
void lls_accounts_refused(struct lls_api *api, const struct lls_http_exchange *exchange);

/* [main] Counts an admitted request as running until lls_accounts_leave, and adds the
 * headers x-ratelimit-* with the tenant's remaining limits to its answer. */
void lls_accounts_enter(struct lls_api *api, struct lls_http_exchange *exchange);
void lls_accounts_leave(struct lls_api *api, struct lls_http_exchange *exchange);

/* [main] Lets the request of an exchange count as running beyond the exchange's end,
 * until lls_account_leave. Returns the account, or NULL without a limit. */
struct lls_account *lls_account_take(struct lls_http_exchange *exchange);
void lls_account_leave(struct lls_account *account);

/* [main] Counts tokens; account may be NULL. */
void lls_account_charge(struct lls_account *account, uint64_t tokens);

/* [main] False while the tenant has used more tokens than it may. */
bool lls_account_has_tokens(struct lls_api *api, const char *name);

/* [main] True if any tenant has a limit that accounts enforce. */
bool lls_accounts_are_limited(const struct lls_api *api);
/* [main] Sets *out to a new array of what accounts have used here, of those that changed
 * since the last call; returns how many. */
size_t lls_accounts_report(struct lls_api *api, struct lls_tenant_usage **out);
/* [main] The last report was lost: the next one has all accounts. */
void lls_accounts_report_again(struct lls_api *api);
/* [main] Notes what tenants have used at all other replicas, and charges the growth if
 * `charge`. */
void lls_accounts_note_others(struct lls_api *api, const struct lls_tenant_usage *others,
                              size_t n, bool charge);

/* [main] Returns the limits of a tenant; 0 means unlimited. */
struct lls_tenant_limits lls_limits_of(const struct lls_api *api, const char *name);

#endif
