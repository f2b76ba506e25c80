/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of [tenants] and [tenant.NAME]. sections.c lists them; tenant_sections.c,
 * which reads a section for each tenant, stands above it.
 */
#include "core/config/loading.h"

typedef struct lls_tenant_limits tenants;
const struct lls_param lls_tenants_params[LLS_TENANTS_PARAMS] = {
    LLS_PARAM_INT(tenants, requests_per_minute, "0", 0, 1000000000, "requests",
                  "most requests that a tenant may begin in a minute, 0 is no limit; "
                  "further ones are answered with 429 and Retry-After",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(
        tenants, tokens_per_minute, "0", 0, 1000000000000, "tokens",
        "most tokens of a tenant's prompts and answers in a minute, 0 is no limit; "
        "counted when they are computed; lines of batches count too, and wait",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(tenants, requests_at_once, "0", 0, 1000000000, "requests",
                  "most requests of one tenant that are not yet answered, 0 is no limit",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(
        tenants, file_bytes, "0", 0, 1ll << 50,
        "most bytes of one tenant's files, 0 is no limit; a further upload is "
        "answered with 413",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(tenants, response_bytes, "0", 0, 1ll << 50,
                    "most bytes of one tenant's stored responses, of which the oldest "
                    "are deleted first; 0: only [server] stored_responses limits them",
                    .flags = LLS_PARAM_RELOADABLE),
};
