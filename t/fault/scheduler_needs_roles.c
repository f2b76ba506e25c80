/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and can be created, but runs on nothing less than instances with roles. */
#include "t/fault/fixture.h"

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_ROLES;
  out->n_preempt = 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = fixture_create, .destroy = fixture_destroy,
    .caps = caps,           .plan = fixture_plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("needs_roles"),
    .vtable = &vtable,
};
