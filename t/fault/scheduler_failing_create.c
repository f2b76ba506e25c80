/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, but can never be created; says why through the host. */
#include "t/fault/fixture.h"

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)params, (void)self;
  return host->fail(host->context, -5, "this fixture never starts"); /* -EIO */
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create,     .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = fixture_plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("failing_create"),
    .vtable = &vtable,
};
