/* SPDX-License-Identifier: Apache-2.0 */
/* A carelessly linked plugin: it exports more than one symbol, and reads the clock
 * itself. */
#include "t/fault/fixture.h"

#include <time.h>

LLS_PLUGIN_EXPORT int a_helper(void);

int a_helper(void)
{
  return (int)time(NULL);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  return a_helper() < 0 ? -1 : fixture_plan(self, view, out);
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
    FIXTURE_TEXTS("loud"),
    .vtable = &vtable,
};
