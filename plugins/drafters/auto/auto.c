/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses what a text repeats, or what the draft model says, whichever makes more tokens
 * in a time: for each request, before each step.
 */
#include <llmserve/drafter.h>
#include <llmserve/policy/blob.h>
#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/candidates.h"
#include "ngram/lookup.h"

static const struct lls_param parameters[] = {
    LOOKUP_PARAMETERS,
};

/* The repetition that was found for a request, when it had `length` tokens. */
struct found {
  uint32_t length, n;
  int32_t tokens[CANDIDATES_MAX];
  float odds[CANDIDATES_MAX];
};

struct automatic {
  const struct lls_host *host;
  struct lookup lookup;
  struct candidates candidates;
  struct found *by_slot; /* (engine->max_requests) */
  uint64_t drafted, accepted, repeated, modelled;
};

static void destroy(void *self)
{
  struct automatic *a = self;
  lookup_free(&a->lookup);
  candidates_free(&a->candidates);
  free(a->by_slot);
  free(a);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  uint32_t slots = host->engine->max_requests;
  struct automatic *a = calloc(1, sizeof *a);
  bool made = a != NULL;
  if (made) {
    a->by_slot = calloc(slots, sizeof *a->by_slot);
    made = lookup_init(&a->lookup, host) == 0;
    made = candidates_init(&a->candidates, slots) == 0 && made && a->by_slot != NULL;
  }
  if (!made) {
    if (a != NULL)
      destroy(a);
    return host->fail(host->context, -ENOMEM, "no memory for %u requests", slots);
  }
  a->host = host;
  lookup_set(&a->lookup, params);
  *self = a;
  return 0;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct automatic *a = self;
  lookup_begin(&a->lookup, r);
  candidates_begin(&a->candidates, r);
  a->by_slot[r->slot].length = 0;
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  lookup_end(&((struct automatic *)self)->lookup, r, reason);
}

/* Returns what the request's text repeats, looked up once for each of its lengths. */
static const struct found *look_up(struct automatic *a, const struct lls_request *r,
                                   uint32_t max)
{
  struct found *f = &a->by_slot[r->slot];
  if (f->length == lls_request_length(r))
    return f;
  f->length = lls_request_length(r);
  f->n =
      lookup_guess(&a->lookup, r, lls_pol_min(max, CANDIDATES_MAX), f->tokens, f->odds);
  return f;
}

/* Returns how many tokens in a ns a step emits that verifies the best number of the
 * repetition's guesses, which cost no pass. */
static double rate_of(const struct found *f, const struct lls_draft_work *w)
{
  double chance = 1, tokens = 1, best = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    chance *= (double)f->odds[i];
    tokens += chance;
    double rate = tokens / ((double)w->step_ns + (i + 1) * (double)w->verify_ns);
    best = rate > best ? rate : best;
  }
  return best;
}

static uint32_t wants(void *self, const struct lls_request *r,
                      const struct lls_draft_work *work)
{
  struct automatic *a = self;
  double rate;
  candidates_learn(&a->candidates, r);
  const struct found *f = look_up(a, r, work->max);
  uint32_t n = candidates_wanted(&a->candidates, r, work, &rate);
  return work->step_ns > 0 && rate_of(f, work) > rate ? 0 : n;
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct automatic *a = self;
  const struct found *f = look_up(a, r, out->max);
  candidates_learn(&a->candidates, r);
  uint32_t n = candidates_take(&a->candidates, r, out, out->tokens, out->odds);
  if (n > 0) { /* asked for since they are better */
    a->modelled++;
    return (int)n;
  }
  n = lls_pol_min(f->n, out->max);
  memcpy(out->tokens, f->tokens, n * sizeof *out->tokens);
  memcpy(out->odds, f->odds, n * sizeof *out->odds);
  a->repeated += n > 0;
  return (int)n;
}

static void verified(void *self, const struct lls_request *r, uint32_t drafted,
                     uint32_t accepted)
{
  struct automatic *a = self;
  (void)r;
  a->drafted += drafted;
  a->accepted += accepted;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct automatic *a = self;
  sink->number(sink->context, "bytes", (double)a->lookup.texts.bytes);
  sink->number(sink->context, "sessions", a->lookup.texts.n_left);
  sink->number(sink->context, "drafted", (double)a->drafted);
  sink->number(sink->context, "accepted", (double)a->accepted);
  sink->number(sink->context, "repeated", (double)a->repeated);
  sink->number(sink->context, "modelled", (double)a->modelled);
}

static int reconfigure(void *self, const void *params)
{
  lookup_set(&((struct automatic *)self)->lookup, params);
  return 0;
}

/* ---- a reload ------------------------------------------------------------------ */

/* The rates that both halves have learnt from the answers of all requests. */
struct learnt {
  struct odds repeated;
  struct candidates_learnt modelled;
};

static int export_state(void *self, struct lls_blob *out)
{
  const struct automatic *a = self;
  const struct learnt l = {a->lookup.odds, a->candidates.learnt};
  return lls_pol_blob_write(out, 1, &l, sizeof l);
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct automatic *a = self;
  const struct lls_host *host = a->host;
  struct learnt l;
  int rc = lls_pol_blob_read(blob, 1, &l, sizeof l, host);
  if (rc < 0)
    return rc;
  if (!odds_are_sound(&l.repeated) || !candidates_are_sound(&l.modelled))
    return host->fail(host->context, -EINVAL, "more hits than tries");
  a->lookup.odds = l.repeated;
  a->candidates.learnt = l.modelled;
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
    .wants = wants,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "auto",
    .version = "1.0",
    .description =
        "guesses repetitions where there are any, else what a small model does",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct lookup_params),
    .vtable = &vtable,
};
