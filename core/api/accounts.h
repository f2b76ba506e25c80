/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of tenants ([tenants] and [tenant.NAME]) and what each has used of them.
 *
 * A tenant is who a request is for: the tenant of its API key; where there are no keys,
 * what the header x-gateway-inference-fairness-id names, "" without it. Requests and
 * tokens a minute are a leaky bucket each: `used` falls by the limit in a minute, and a
 * request is taken while there is room. Tokens are counted as they are computed, so that
 * an answer may go beyond the limit, and the next requests wait for that. A reload
 * changes limits and leaves what was used.
 */
#ifndef LLS_API_ACCOUNTS_H
#define LLS_API_ACCOUNTS_H

#include "core/api/api_internal.h"

struct lls_account;

/* [main] The account of the name, with a reference that lls_account_put gives back. NULL
 * where the tenant has no limit, or without memory. */
struct lls_account *lls_account_get(struct lls_api *api, const char *name);
void lls_account_put(struct lls_account *account);

/* [main] For all of them, at the end. */
void lls_accounts_free(struct lls_api *api);

/* [main] True if a request may begin now, as far as limits go; else the error is a 429.
 */
bool lls_accounts_allow(struct lls_api *api, const struct lls_http_exchange *exchange,
                        struct lls_api_error *error);

/* [main] Counts a request that was not. */
void lls_accounts_refused(struct lls_api *api, const struct lls_http_exchange *exchange);

/* [main] Counts a request that was allowed, until lls_accounts_leave, and tells its
 * client what is left: x-ratelimit-*. */
void lls_accounts_enter(struct lls_api *api, struct lls_http_exchange *exchange);
void lls_accounts_leave(struct lls_api *api, struct lls_http_exchange *exchange);

/* [main] Counts tokens; account may be NULL. */
void lls_account_charge(struct lls_account *account, uint64_t tokens);

/* [main] False while the tenant has used more tokens than it may. */
bool lls_account_has_tokens(struct lls_api *api, const char *name);

/* [main] The limits of a tenant; what is 0 is unlimited. */
struct lls_tenant_limits lls_limits_of(const struct lls_api *api, const char *name);

#endif
