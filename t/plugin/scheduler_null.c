/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest scheduler: one request at a time, whole, in order of arrival. */
#include <llmserve/scheduler.h>

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)host;
  (void)params;
  *self = NULL;
  return 0;
}

static void destroy(void *self)
{
  (void)self;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  (void)out;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct lls_request *r = view->n_running > 0     ? view->running[0]
                                : view->n_preempted > 0 ? view->preempted[0]
                                : view->n_waiting > 0   ? view->waiting[0]
                                                        : NULL;
  (void)self;
  if (r == NULL)
    return 0;
  uint32_t pending = lls_request_pending(r);
  lls_plan_run(out, r, pending < view->max_tokens ? pending : view->max_tokens);
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "null",
    .version = "1.0",
    .description = "test fixture: one request at a time",
    .licence = "Apache-2.0",
    .vtable = &vtable,
};
