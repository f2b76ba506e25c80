/* SPDX-License-Identifier: Apache-2.0 */
/* See asker.h. */
#include "asker.h"

#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>

struct asker {
  const struct lls_host *host;
  struct asker_params params;
  struct candidates candidates;
  uint64_t drafted, accepted;
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct asker *m = calloc(1, sizeof *m);
  if (m == NULL || candidates_init(&m->candidates, host->engine->max_requests) < 0) {
    free(m);
    return host->fail(host->context, -ENOMEM, "no memory for %u requests",
                      host->engine->max_requests);
  }
  m->host = host;
  m->params = *(const struct asker_params *)params;
  *self = m;
  return 0;
}

static void destroy(void *self)
{
  struct asker *m = self;
  candidates_free(&m->candidates);
  free(m);
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  candidates_begin(&((struct asker *)self)->candidates, r);
}

static uint32_t wants(void *self, const struct lls_request *r,
                      const struct lls_draft_work *work)
{
  struct asker *m = self;
  uint32_t depth = (uint32_t)m->params.depth;
  candidates_learn(&m->candidates, r);
  if (depth > 0)
    return lls_pol_min(depth, work->max);
  return candidates_wanted(&m->candidates, r, work, NULL);
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct asker *m = self;
  candidates_learn(&m->candidates, r);
  return (int)candidates_take(&m->candidates, r, out, out->tokens, out->odds);
}

static void verified(void *self, const struct lls_request *r, uint32_t drafted,
                     uint32_t accepted)
{
  struct asker *m = self;
  (void)r;
  m->drafted += drafted;
  m->accepted += accepted;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct asker *m = self;
  sink->number(sink->context, "drafted", (double)m->drafted);
  sink->number(sink->context, "accepted", (double)m->accepted);
}

static int reconfigure(void *self, const void *params)
{
  struct asker *m = self;
  m->params = *(const struct asker_params *)params;
  return 0;
}

static int export_state(void *self, struct lls_blob *out)
{
  return candidates_export(&((struct asker *)self)->candidates, out);
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct asker *m = self;
  return candidates_import(&m->candidates, m->host, blob);
}

const struct lls_drafter_vtable asker_vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof asker_vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .draft = draft,
    .on_arrival = on_arrival,
    .verified = verified,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
    .wants = wants,
};
