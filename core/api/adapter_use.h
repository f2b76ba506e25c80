/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with a LoRA adapter, which `model` names. */
#ifndef LLS_API_ADAPTER_USE_H
#define LLS_API_ADAPTER_USE_H

#include "core/api/generation.h"

/* Starts a generation as lls_generation_start does, as soon as its adapter is in memory:
 * at once, or after a thread of the pool has loaded it. If it cannot be loaded, the
 * client gets the reason. */
void lls_adapters_start(struct lls_api *api, struct lls_generation *generation,
                        struct lls_http_exchange *exchange);

/* Answers 404, 400 or 503 for an adapter that could not be loaded. */
void lls_adapters_fail(struct lls_api *api, int rc, const struct lls_error *why,
                       struct lls_api_error *error);

/* Returns true if requests may change the list of adapters; else sets the error. */
bool lls_adapters_may_change(const struct lls_api *, struct lls_api_error *error);

#endif
