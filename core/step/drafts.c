/* SPDX-License-Identifier: Apache-2.0 */
/* See drafts.h. Guesses that a step verifies are copied to the end of the request's text,
 * where there is room for the tokens that it may still generate: commit.c leaves the
 * accepted ones there. */
#include "core/step/drafts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/least.h"
#include "core/engine/batch.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/lists.h"
#include "core/instance/request.h"
#include "core/step/constraint.h"

int lls_drafts_init(struct lls_step_drafts *d, const struct lls_engine *engine)
{
  size_t rows = lls_engine_draft_rows(engine);
  *d = (struct lls_step_drafts){.max_rows = (uint32_t)rows};
  if (rows == 0)
    return 0;
  d->words = lls_mask_words(lls_engine_config(engine)->vocab);
  d->draws = calloc(2 * rows, sizeof *d->draws);
  d->masks = calloc(rows * d->words, sizeof *d->masks);
  d->walk = malloc(lls_grammar_state_bytes());
  return d->draws != NULL && d->masks != NULL && d->walk != NULL ? 0 : -ENOMEM;
}

void lls_drafts_free(struct lls_step_drafts *d)
{
  free(d->draws);
  free(d->masks);
  free(d->walk);
}

/* ---- a request's guesses ------------------------------------------------------- */

uint32_t lls_drafts_room(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  uint32_t most = lls_least_u32(in->caps.max_drafts, live->max_drafts);
  LLS_ON_STEP(in);
  if (live->pooling != LLS_POOLING_NONE || live->dry.dry.multiplier > 0 ||
      live->sampling.more.mirostat != 0 || v->generated_tokens >= v->max_new_tokens)
    return 0;
  return lls_least_u32(most, v->max_new_tokens - v->generated_tokens - 1);
}

void lls_drafts_offer(struct lls_instance *in, struct lls_live *live, uint32_t n,
                      const int32_t *tokens, const float *odds)
{
  uint32_t vocabulary = lls_engine_config(in->engine)->vocab;
  uint32_t room = lls_least_u32(lls_drafts_room(in, live), n), i = 0;
  LLS_ON_STEP(in);
  for (; i < room && tokens[i] >= 0 && (uint32_t)tokens[i] < vocabulary; i++) {
    float chance = odds != NULL ? odds[i] : 0.5f;
    live->drafts[i] = tokens[i];
    live->draft_odds[i] = chance > 1 ? 1 : chance >= 0 ? chance : chance < 0 ? 0 : 0.5f;
  }
  live->view.drafted_tokens = i;
}

void lls_drafts_clear(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  live->view.drafted_tokens = 0;
}

/* ---- the batch ------------------------------------------------------- */

/* Returns how many of the n guesses the request's grammar allows. */
static uint32_t allowed_by_grammar(struct lls_instance *in, struct lls_live *live,
                                   const int32_t *guesses, uint32_t n)
{
  struct lls_grammar_state *walk = in->batch.drafts.walk;
  uint32_t i = 0;
  if (n == 0 || live->constraint.grammar == NULL)
    return n; /* without guesses there may be no memory for a walk */
  memcpy(walk, live->constraint.state, lls_grammar_state_bytes());
  while (i < n && !lls_grammar_complete(walk) &&
         lls_grammar_accept_token(walk, guesses[i]) == 0)
    i++;
  return i;
}

/* Sets how the token after `ahead` guesses is drawn: as the next one is, with the guesses
 * as text. */
static void set_draw(struct lls_instance *in, struct lls_live *live, uint32_t ahead,
                     struct lls_sampling *s)
{
  const struct lls_sampling *next = &live->sampling;
  struct lls_step_drafts *d = &in->batch.drafts;
  uint32_t length = lls_request_length(&live->view) + ahead, last = next->penalty_last_n;
  uint32_t first = last > 0 && last < length ? length - last : 0;
  uint32_t n_prompt = live->view.prompt_tokens;
  *s = *next;
  s->index = next->index + ahead;
  s->history = live->tokens + first;
  s->n_history = length - first;
  s->n_prompt = n_prompt > first ? n_prompt - first : 0;
  if (!lls_lists_set_ahead(in, live, ahead, d->masks + d->n_rows * d->words, s))
    live->n_usable = lls_least_u32(live->n_usable, ahead);
}

void lls_drafts_add(struct lls_instance *in, struct lls_live *live,
                    struct lls_engine_sequence *s)
{
  struct lls_step_drafts *d = &in->batch.drafts;
  LLS_ON_STEP(in);
  uint32_t n = lls_least_u32(live->run_drafts, live->view.drafted_tokens);
  n = lls_least_u32(n, lls_drafts_room(in, live));
  n = lls_least_u32(n, d->max_rows - d->n_rows);
  n = allowed_by_grammar(in, live, live->drafts, n);
  live->n_usable = 1 + n;
  if (n == 0)
    return;
  memcpy(live->tokens + lls_request_length(&live->view), live->drafts,
         n * sizeof *live->drafts);
  struct lls_sampling *draws = d->draws + d->n_draws;
  draws[0] = live->sampling;
  for (uint32_t i = 1; i <= n; i++, d->n_rows++)
    set_draw(in, live, i, &draws[i]);
  d->n_draws += 1 + n;
  s->sampling = draws;
  s->drafts = n;
  s->n_tokens += n;
}

uint64_t lls_drafts_fill_masks(struct lls_instance *in, struct lls_live *live,
                               struct lls_engine_sequence *s)
{
  struct lls_step_drafts *d = &in->batch.drafts;
  struct lls_sampling *draws = (struct lls_sampling *)(uintptr_t)s->sampling;
  const int32_t *guesses = s->tokens + s->n_tokens - s->drafts;
  uint64_t spent = 0;
  LLS_ON_STEP(in);
  if (s->drafts > 0)
    memcpy(d->walk, live->constraint.state, lls_grammar_state_bytes());
  for (uint32_t i = 1; i <= s->drafts; i++) {
    uint32_t *mask = (uint32_t *)(uintptr_t)draws[i].allowed;
    bool whole = i < live->n_usable &&
                 lls_grammar_accept_token(d->walk, guesses[i - 1]) == 0 &&
                 !lls_grammar_complete(d->walk) &&
                 lls_constraint_fill_ahead(in, live, d->walk, i, mask, &spent);
    if (!whole) { /* the device draws a token that is not used */
      live->n_usable = lls_least_u32(live->n_usable, i);
      draws[i].allowed = NULL;
    }
  }
  return spent;
}
