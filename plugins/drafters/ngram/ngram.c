/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses that an answer goes on as it, its prompt or an earlier turn of its session did
 * after the same tokens: prompt lookup (Saxena, "Prompt lookup decoding", 2023) by a
 * suffix automaton (Hu et al., "SAM decoding", 2024), which finds the longest match
 * without a limit of its length. The odds of each length are learnt (odds.h).
 */
#include <llmserve/drafter.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lookup.h"

struct params {
  int64_t min_match, memory, pace;
};

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, min_match, "2", 1, 64, "tokens",
                  "fewest tokens at the end of a text that must occur earlier in it",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(struct params, memory, "256MiB", 65536, 1125899906842624,
                    "most memory of all texts together, some 150 bytes a token",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, pace, "512", 1, 1e6, "tokens",
                  "tokens of a prompt that are read between two steps",
                  .flags = LLS_PARAM_RELOADABLE),
};

struct ngram {
  const struct lls_host *host;
  struct lookup lookup;
  uint64_t drafted, accepted;
};

static void set_params(struct ngram *g, const struct params *params)
{
  g->lookup.texts.most_bytes = (size_t)params->memory;
  g->lookup.min_match = (uint32_t)params->min_match;
  g->lookup.pace = (uint32_t)params->pace;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct ngram *g = calloc(1, sizeof *g);
  if (g == NULL ||
      lookup_init(&g->lookup, host->engine->max_requests, host->engine->max_drafts) < 0) {
    free(g);
    return host->fail(host->context, -ENOMEM, "no memory for %u requests",
                      host->engine->max_requests);
  }
  g->host = host;
  set_params(g, params);
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
  set_params(self, params);
  return 0;
}

/* The learnt odds pass to the next version; texts are read again. */
static int export_state(void *self, struct lls_blob *out)
{
  const struct ngram *g = self;
  *out = (struct lls_blob){.version = 1,
                           .bytes = sizeof g->lookup.odds,
                           .data = malloc(sizeof g->lookup.odds)};
  if (out->data == NULL)
    return -ENOMEM;
  memcpy(out->data, &g->lookup.odds, sizeof g->lookup.odds);
  return 0;
}

static bool is_sound(const struct odds *o)
{
  for (uint32_t i = 0; i <= ODDS_LENGTHS; i++)
    if (!(o->hits[i] >= 0 && o->hits[i] <= o->tries[i] && o->tries[i] < 1e6f))
      return false;
  return true;
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct ngram *g = self;
  struct odds odds;
  if (blob->version != 1)
    return g->host->fail(g->host->context, -ENOTSUP, "version 1 expected, %u found",
                         blob->version);
  if (blob->bytes != sizeof odds)
    return g->host->fail(g->host->context, -EINVAL, "%zu bytes expected, %zu found",
                         sizeof odds, blob->bytes);
  memcpy(&odds, blob->data, sizeof odds);
  if (!is_sound(&odds))
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
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
