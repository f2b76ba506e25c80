/* SPDX-License-Identifier: Apache-2.0 */
/* Its create does not return before a file is there. */
#include "t/fault/fixture.h"

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
  const struct params *p = given;
  while (access(p->until, F_OK) < 0)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  host->log(host->context, LLS_LOG_INFO, "created at last");
  *self = (void *)(uintptr_t)given;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create,     .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = fixture_plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("slow_create"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
