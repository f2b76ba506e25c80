/* SPDX-License-Identifier: Apache-2.0 */
/* A drafter whose odds are no probability. */
#include "t/fault/fixture.h"

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  (void)self;
  out->tokens[0] = r->tokens[0];
  out->odds[0] = 2;
  return 1;
}

static const struct lls_drafter_vtable vtable = {
    FIXTURE_DRAFTER_HEAD, .create = fixture_create, .destroy = fixture_destroy,
    .flags = flags,       .draft = draft,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_DRAFTER),
    FIXTURE_TEXTS("odd"),
    .vtable = &vtable,
};
