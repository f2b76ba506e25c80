/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses that an answer goes on as it, its prompt or an earlier turn of its session did
 * after the same tokens: prompt lookup (Saxena, "Prompt lookup decoding", 2023) by a
 * suffix automaton (Hu et al., "SAM decoding", 2024), which finds the longest match
 * without a limit of its length. The odds of each length are learnt (odds.h).
 */
#include <llmserve/drafter.h>
#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "texts.h"

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
  struct params params;
  struct texts texts;
  struct odds odds;
  uint64_t drafted, accepted;
};

static void set_params(struct ngram *g, const struct params *params)
{
  g->params = *params;
  g->texts.most_bytes = (size_t)params->memory;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct ngram *g = calloc(1, sizeof *g);
  if (g == NULL || texts_init(&g->texts, host->engine->max_requests,
                              host->engine->max_drafts, 0) < 0) {
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
  texts_free(&g->texts);
  free(g);
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  texts_begin(&((struct ngram *)self)->texts, r);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  bool whole = reason == LLS_FINISH_STOP || reason == LLS_FINISH_LENGTH;
  texts_end(&((struct ngram *)self)->texts, r, whole);
}

/* Compares the last guesses with what the request's text has become, whether or not a
 * step verified them. */
static void learn(struct ngram *g, struct text *t, const struct lls_request *r)
{
  uint32_t n = lls_request_length(r) - t->length;
  const int32_t *came = r->tokens + t->length;
  for (uint32_t i = 0; i < n && i < t->n_guesses; i++) {
    bool hit = came[i] == t->guesses[i];
    odds_note(&g->odds, &t->own, t->match + i, hit, i == 0);
    if (!hit)
      break;
  }
  t->n_guesses = 0;
}

/* Copies what follows `at` in the text; behind the text's end what was copied follows,
 * since a text that repeats itself may go on to do so. Returns how many tokens. */
static uint32_t copy(const struct automaton *a, uint32_t at, uint32_t max, int32_t *out)
{
  uint32_t n = 0;
  while (n < max) {
    int32_t token = at + n < a->n ? a->text[at + n] : out[at + n - a->n];
    if (token < 0)
      break; /* another text begins */
    out[n++] = token;
  }
  return n;
}

/* Returns true if the answer has been what its client expects from the first token on. */
static bool follows(struct text *t, const struct lls_request *r)
{
  const int32_t *answer = r->tokens + r->prompt_tokens;
  while (t->followed < r->generated_tokens && t->followed < r->n_expected &&
         answer[t->followed] == r->expected[t->followed])
    t->followed++;
  return t->followed > 0 && t->followed == r->generated_tokens;
}

/* Writes the newest guesses. Returns how many. */
static uint32_t guess(const struct ngram *g, struct text *t, const struct lls_request *r,
                      uint32_t max)
{
  uint32_t at = 0;
  bool expected = follows(t, r);
  t->match = automaton_match(&t->automaton, &at);
  if (expected && t->followed >= t->match) {
    t->match = t->followed;
    uint32_t n = lls_pol_min(max, r->n_expected - t->followed);
    memcpy(t->guesses, r->expected + t->followed, n * sizeof *t->guesses);
    return n;
  }
  return t->match < (uint32_t)g->params.min_match
             ? 0
             : copy(&t->automaton, at, max, t->guesses);
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct ngram *g = self;
  struct text *t = g->texts.by_slot[r->slot];
  if (t == NULL)
    return 0;
  learn(g, t, r);
  if (!texts_read(&g->texts, t, r, (uint32_t)g->params.pace))
    return 0;
  t->n_guesses = guess(g, t, r, lls_pol_min(out->max, g->texts.max_drafts));
  t->length = lls_request_length(r);
  memcpy(out->tokens, t->guesses, t->n_guesses * sizeof *out->tokens);
  for (uint32_t i = 0; i < t->n_guesses; i++)
    out->odds[i] = (float)odds_of(&g->odds, &t->own, t->match + i);
  return (int)t->n_guesses;
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
  sink->number(sink->context, "bytes", (double)g->texts.bytes);
  sink->number(sink->context, "sessions", g->texts.n_left);
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
  *out = (struct lls_blob){
      .version = 1, .bytes = sizeof g->odds, .data = malloc(sizeof g->odds)};
  if (out->data == NULL)
    return -ENOMEM;
  memcpy(out->data, &g->odds, sizeof g->odds);
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
  g->odds = odds;
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
