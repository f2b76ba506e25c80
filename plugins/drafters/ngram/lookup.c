/* SPDX-License-Identifier: Apache-2.0 */
/* See lookup.h. */
#include "lookup.h"

#include <llmserve/policy/number.h>

#include <string.h>

int lookup_init(struct lookup *l, const struct lls_host *host)
{
  return texts_init(&l->texts, host->engine->max_requests, host->engine->max_drafts, 0);
}

void lookup_set(struct lookup *l, const struct lookup_params *params)
{
  l->texts.most_bytes = (size_t)params->memory;
  l->min_match = (uint32_t)params->min_match;
  l->pace = (uint32_t)params->pace;
}

void lookup_free(struct lookup *l)
{
  texts_free(&l->texts);
}

void lookup_begin(struct lookup *l, const struct lls_request *r)
{
  texts_begin(&l->texts, r);
}

void lookup_end(struct lookup *l, const struct lls_request *r, uint32_t reason)
{
  bool whole = reason == LLS_FINISH_STOP || reason == LLS_FINISH_LENGTH;
  texts_end(&l->texts, r, whole);
}

/* Compares the last guesses with what the request's text has become, whether or not a
 * step verified them. */
static void learn(struct lookup *l, struct text *t, const struct lls_request *r)
{
  uint32_t n = lls_request_length(r) - t->length;
  const int32_t *came = r->tokens + t->length;
  for (uint32_t i = 0; i < n && i < t->n_guesses; i++) {
    bool hit = came[i] == t->guesses[i];
    odds_note(&l->odds, &t->own, t->match + i, hit, i == 0);
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
static uint32_t guess(const struct lookup *l, struct text *t, const struct lls_request *r,
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
  return t->match < l->min_match ? 0 : copy(&t->automaton, at, max, t->guesses);
}

uint32_t lookup_guess(struct lookup *l, const struct lls_request *r, uint32_t max,
                      int32_t *tokens, float *odds)
{
  struct text *t = l->texts.by_slot[r->slot];
  if (t == NULL)
    return 0;
  learn(l, t, r);
  if (!texts_read(&l->texts, t, r, l->pace))
    return 0;
  t->n_guesses = guess(l, t, r, lls_pol_min(max, l->texts.max_drafts));
  t->length = lls_request_length(r);
  memcpy(tokens, t->guesses, t->n_guesses * sizeof *tokens);
  for (uint32_t i = 0; i < t->n_guesses; i++)
    odds[i] = (float)odds_of(&l->odds, &t->own, t->match + i);
  return t->n_guesses;
}
