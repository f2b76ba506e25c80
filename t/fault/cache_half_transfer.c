/* SPDX-License-Identifier: Apache-2.0 */
/* Takes sequences off the device and never brings them back. */
#include "t/fault/fixture_cache.h"

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  (void)self, (void)r, (void)transfer;
  return 0;
}

static const struct lls_cache_vtable vtable = {
    FIXTURE_CACHE_HEAD,
    FIXTURE_CACHE_CALLBACKS_BUT_AUDIT,
    .audit = cache_audit,
    .offload = offload,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_CACHE),
    FIXTURE_TEXTS("half_transfer"),
    .vtable = &vtable,
};
