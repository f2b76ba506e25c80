/* SPDX-License-Identifier: Apache-2.0 */
/* Calls something of the host by its symbol instead of through struct lls_host. */
#include "t/fault/fixture.h"

int lls_not_there(void);

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  (void)self, (void)view, (void)out;
  return lls_not_there();
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD,
    .create = fixture_create,
    .destroy = fixture_destroy,
    .caps = fixture_caps,
    .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("undefined"),
    .vtable = &vtable,
};
