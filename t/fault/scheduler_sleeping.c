/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that never ends once there is a request. */
#include "t/fault/fixture.h"

#include <unistd.h>

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  (void)self, (void)out;
  while (view->n_waiting > 0)
    pause();
  return 0;
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
    FIXTURE_TEXTS("sleeping"),
    .vtable = &vtable,
};
