/* SPDX-License-Identifier: Apache-2.0 */
/* No guesses: the core calls draft never, since flags does not have
 * LLS_DRAFTER_DRAFTS. */
#include <llmserve/drafter.h>

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

static uint32_t flags(void *self)
{
  (void)self;
  return 0;
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  (void)self;
  (void)r;
  (void)out;
  return 0;
}

static const struct lls_drafter_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .draft = draft,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "none",
    .version = "1.0",
    .description = "guesses nothing",
    .licence = "Apache-2.0",
    .vtable = &vtable,
};
