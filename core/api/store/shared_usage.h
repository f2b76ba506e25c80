/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges the use of tenants between replicas that share a database; see
 * core/api/accounts.h. */
#ifndef LLS_API_SHARED_USAGE_H
#define LLS_API_SHARED_USAGE_H

#include "core/api/api_internal.h"

/* Called at each tick of the timer. */
void lls_shared_usage_tick(struct lls_api *api);

#endif
