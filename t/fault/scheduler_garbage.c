/* SPDX-License-Identifier: Apache-2.0 */
/* Writes over all of its plan: with zeros, or with one byte. */
#include "t/fault/fixture.h"

#include <string.h>

enum how { ZERO, FILL };

struct params {
  int64_t how;
};

static const struct lls_param params[] = {
    LLS_PARAM_CHOICE(struct params, how, "zero", "zero|fill", "what it writes"),
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
  (void)view;
  if (p->how == FILL)
    memset(out->items, 0x5a, out->max_items * sizeof *out->items);
  memset(out, p->how == FILL ? 0x5a : 0, sizeof *out);
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create, .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("garbage"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
