/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that does not end once there is a request: never, or not before a file is there.
 */
#include "t/fault/fixture.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

struct params {
  const char *until;
};

static const struct lls_param params[] = {
    LLS_PARAM_PATH(struct params, until, "", "file whose appearance ends it"),
};

static int create(const struct lls_host *host, const void *given, void **self)
{
  (void)host;
  *self = (void *)(uintptr_t)given;
  return 0;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct params *p = self;
  (void)out;
  if (view->n_waiting == 0)
    return 0;
  while (p->until[0] == '\0' || access(p->until, F_OK) < 0)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  return -EIO;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create, .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("sleeping"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
