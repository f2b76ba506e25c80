/* SPDX-License-Identifier: Apache-2.0 */
/* See candidates.h. */
#include "candidates.h"

#include <llmserve/policy/blob.h>
#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT      8.0 /* tries that a prior is worth */
#define PRIOR       0.6 /* acceptance before anything is known */
#define KEPT        512.0f
#define OWN         64.0f /* tries of a request that count */
#define LEAST_GAIN  1.02  /* over a step without guesses */
#define FIRST_PAUSE 32
#define LAST_PAUSE  512

int candidates_init(struct candidates *c, uint32_t slots)
{
  c->by_slot = calloc(slots, sizeof *c->by_slot);
  return c->by_slot != NULL ? 0 : -ENOMEM;
}

void candidates_free(struct candidates *c)
{
  free(c->by_slot);
}

void candidates_begin(struct candidates *c, const struct lls_request *r)
{
  c->by_slot[r->slot] = (struct own_candidates){.n = 0};
}

/* ---- what is learnt ------------------------------------------------------------ */

static uint32_t bin_of(float odds)
{
  uint32_t bin = odds > 0 ? (uint32_t)(odds * CANDIDATES_BINS) : 0;
  return lls_pol_min(bin, CANDIDATES_BINS - 1);
}

/* Returns how often a candidate of that probability is right. */
static double odds_of(const struct candidates_learnt *l, float odds)
{
  uint32_t bin = bin_of(odds);
  double prior = (double)odds; /* as if the draft model were as sure as it is right */
  return ((double)l->hits[bin] + WEIGHT * prior) / ((double)l->tries[bin] + WEIGHT);
}

static void note(struct candidates_learnt *l, struct own_candidates *own, float odds,
                 bool hit)
{
  uint32_t bin = bin_of(odds);
  l->hits[bin] += hit;
  l->tries[bin] += 1;
  if (l->tries[bin] >= KEPT) {
    l->hits[bin] /= 2;
    l->tries[bin] /= 2;
  }
  own->right += hit;
  own->tried += 1;
  if (own->tried >= OWN) {
    own->right /= 2;
    own->tried /= 2;
  }
}

void candidates_learn(struct candidates *c, const struct lls_request *r)
{
  struct own_candidates *own = &c->by_slot[r->slot];
  uint32_t length = lls_request_length(r), n = own->n;
  if (own->length >= length)
    return;
  own->n = 0;
  for (uint32_t i = 0; i < n && own->length + i < length; i++) {
    bool hit = r->tokens[own->length + i] == own->tokens[i];
    note(&c->learnt, own, own->odds[i], hit);
    if (!hit)
      break;
  }
}

/* Returns the chance that a candidate is right if those before it are. */
static double acceptance_of(const struct candidates *c, const struct own_candidates *own)
{
  double hits = WEIGHT * PRIOR, tries = WEIGHT;
  for (uint32_t i = 0; i < CANDIDATES_BINS; i++) {
    hits += (double)c->learnt.hits[i];
    tries += (double)c->learnt.tries[i];
  }
  return ((double)own->right + WEIGHT * hits / tries) / ((double)own->tried + WEIGHT);
}

/* ---- how many are wanted ------------------------------------------------------- */

/* Returns the number of candidates that makes the most tokens in a time, and in *rate how
 * many. */
static uint32_t best_of(const struct lls_draft_work *w, double a, double *rate)
{
  double tokens = 1, chance = 1, step = (double)w->step_ns;
  double each = (double)w->pass_ns + (double)w->verify_ns;
  double plain = LEAST_GAIN / step;
  uint32_t best = 0, most = lls_pol_min(w->max, CANDIDATES_MAX);
  *rate = plain;
  for (uint32_t d = 1; d <= most; d++) {
    chance *= a;
    tokens += chance;
    double made = tokens / (step + d * each);
    if (made > *rate) {
      *rate = made;
      best = d;
    }
  }
  return best;
}

/* Returns true if the time until the draft model has read the text is won back by half of
 * the tokens that the answer may still have. */
static bool pays(const struct lls_request *r, const struct lls_draft_work *w, double rate)
{
  double left = (double)(r->max_new_tokens - r->generated_tokens) / 2;
  return left * ((double)w->step_ns - 1 / rate) > (double)w->behind_ns;
}

uint32_t candidates_wanted(struct candidates *c, const struct lls_request *r,
                           const struct lls_draft_work *w, double *rate)
{
  struct own_candidates *own = &c->by_slot[r->slot];
  double made = 0;
  uint32_t best = lls_pol_min(w->max, 1); /* a pass, to see how long it takes */
  if (w->step_ns > 0 && w->pass_ns > 0) {
    best = best_of(w, acceptance_of(c, own), &made);
    best = best > 0 && pays(r, w, made) ? best : 0;
  }
  if (rate != NULL)
    *rate = made;
  if (best > 0) {
    own->pause = own->pauses = 0;
    return best;
  }
  if (own->pauses == 0)
    own->pause = own->pauses = FIRST_PAUSE;
  if (own->pause-- > 0)
    return 0;
  own->pause = own->pauses = lls_pol_min(2 * own->pauses, LAST_PAUSE);
  return w->behind_ns == 0 ? lls_pol_min(w->max, 1) : 0;
}

uint32_t candidates_take(struct candidates *c, const struct lls_request *r,
                         const struct lls_draft *from, int32_t *tokens, float *odds)
{
  struct own_candidates *own = &c->by_slot[r->slot];
  uint32_t n = lls_pol_min(lls_pol_min(from->n_candidates, from->max), CANDIDATES_MAX);
  for (uint32_t i = 0; i < n; i++) {
    own->tokens[i] = tokens[i] = from->candidates[i];
    own->odds[i] = from->candidate_odds[i];
    odds[i] = (float)odds_of(&c->learnt, own->odds[i]);
  }
  own->n = n;
  own->length = lls_request_length(r);
  return n;
}

/* ---- a reload ------------------------------------------------------------------ */

bool candidates_are_sound(const struct candidates_learnt *l)
{
  for (uint32_t i = 0; i < CANDIDATES_BINS; i++)
    if (!(l->hits[i] >= 0 && l->hits[i] <= l->tries[i] && l->tries[i] < 1e6f))
      return false;
  return true;
}

int candidates_export(const struct candidates *c, struct lls_blob *out)
{
  return lls_pol_blob_write(out, 1, &c->learnt, sizeof c->learnt);
}

int candidates_import(struct candidates *c, const struct lls_host *host,
                      const struct lls_blob *blob)
{
  struct candidates_learnt l;
  int rc = lls_pol_blob_read(blob, 1, &l, sizeof l, host);
  if (rc < 0)
    return rc;
  if (!candidates_are_sound(&l))
    return host->fail(host->context, -EINVAL, "more hits than tries");
  c->learnt = l;
  return 0;
}
