/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, and its create returns what is neither 0 nor a negative errno. */
#include "t/fault/fixture.h"

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)host, (void)params, (void)self;
  return 1;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create,     .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = fixture_plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("positive_create"),
    .vtable = &vtable,
};
