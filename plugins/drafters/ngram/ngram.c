/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses that an answer goes on as it, its prompt or an earlier turn of its session did
 * after the same tokens: prompt lookup (Saxena, "Prompt lookup decoding", 2023) by a
 * suffix automaton (Hu et al., "SAM decoding", 2024), which finds the longest match
 * without a limit of its length. The odds of each length are learnt (odds.h).
 */
#include <llmserve/drafter.h>
#include <llmserve/policy/blob.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup.h"

static const struct lls_param parameters[] = {
    LOOKUP_PARAMETERS,
};

struct ngram {
  const struct lls_host *host;
  struct lookup lookup;
  uint64_t drafted, accepted;
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct ngram *g = calloc(1, sizeof *g);
  if (g == NULL || lookup_init(&g->lookup, host) < 0) {
    free(g);
    return host->fail(host->context, -ENOMEM, "no memory for %u requests",
                      host->engine->max_requests);
  }
  g->host = host;
  lookup_set(&g->lookup, params);
  *self = g;
  return 0;
}

static void destroy(void *self)
{
  struct ngram *g = self;
  lookup_free(&g->lookup);
  free(g);
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  lookup_begin(&((struct ngram *)self)->lookup, r);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  lookup_end(&((struct ngram *)self)->lookup, r, reason);
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct ngram *g = self;
  return (int)lookup_guess(&g->lookup, r, out->max, out->tokens, out->odds);
}

static void verified(void *self, const struct lls_request *r, uint32_t drafted,
                     uint32_t accepted)
{
  struct ngram *g = self;
  (void)r;
  g->drafted += drafted;
  g->accepted += accepted;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct ngram *g = self;
  sink->number(sink->context, "bytes", (double)g->lookup.texts.bytes);
  sink->number(sink->context, "sessions", g->lookup.texts.n_left);
  sink->number(sink->context, "drafted", (double)g->drafted);
  sink->number(sink->context, "accepted", (double)g->accepted);
}

static int reconfigure(void *self, const void *params)
{
  lookup_set(&((struct ngram *)self)->lookup, params);
  return 0;
}

/* The learnt odds pass to the next version; texts are read again. */
static int export_state(void *self, struct lls_blob *out)
{
  const struct ngram *g = self;
  return lls_pol_blob_write(out, 1, &g->lookup.odds, sizeof g->lookup.odds);
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct ngram *g = self;
  struct odds odds;
  int rc = lls_pol_blob_read(blob, 1, &odds, sizeof odds, g->host);
  if (rc < 0)
    return rc;
  if (!odds_are_sound(&odds))
    return g->host->fail(g->host->context, -EINVAL, "more hits than tries");
  g->lookup.odds = odds;
  return 0;
}

static const struct lls_drafter_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .draft = draft,
    .on_arrival = on_arrival,
    .verified = verified,
    .on_finish = on_finish,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "ngram",
    .version = "1.0",
    .description = "guesses that an answer repeats itself, its prompt or its session",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct lookup_params),
    .vtable = &vtable,
};
