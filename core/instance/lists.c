/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens that the next draw may take. All constraints of a request are intersected,
 * in this order:
 *
 *   the grammar's mask (constraint.c), or the whole vocabulary
 *   allowed_token_ids, less bad_words of one token and tokens with a logit_bias of -100
 *   bad_words of several tokens: their last token, where the answer ends with the rest
 *   min_tokens: no stop token, and none that ends the grammar's text
 *
 * The next token is drawn from the intersection. If a grammar leaves only tokens that
 * min_tokens excludes, min_tokens is ignored: a whole text of the grammar is worth more
 * than its length. If the intersection is empty otherwise, the answer ends
 * (lls_lists_end). A submission whose constraints leave nothing from the start is
 * refused (lls_lists_check).
 *
 * The second line never changes, so it is one mask, made with the request. A draw that
 * only min_tokens constrains has a short list of tokens instead of a mask.
 */
#include "core/instance/lists.h"

#include <errno.h>
#include <string.h>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"

#define NEVER (-100.f) /* a bias that bans its token, as OpenAI has it */

static void clear(uint32_t *mask, uint32_t vocabulary, int32_t token)
{
  if (token >= 0 && (uint32_t)token < vocabulary)
    mask[token / 32] &= ~(UINT32_C(1) << (token % 32));
}

static bool has(const uint32_t *mask, int32_t token)
{
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

static bool has_any(const uint32_t *mask, size_t words)
{
  for (size_t i = 0; i < words; i++)
    if (mask[i] != 0)
      return true;
  return false;
}

/* ---- made with the request --------------------------------------------------------- */

static bool bans_for_good(const struct lls_submission *s)
{
  for (uint32_t i = 0; i < s->sampling.n_bias; i++)
    if (s->sampling.bias[i].bias <= NEVER)
      return true;
  for (uint32_t i = 0; i < s->n_bad_words; i += 1 + (uint32_t)s->bad_words[i])
    if (s->bad_words[i] == 1)
      return true;
  return false;
}

bool lls_lists_have_base(const struct lls_submission *s)
{
  return s->sampling.allowed != NULL || bans_for_good(s);
}

bool lls_lists_have_mask(const struct lls_submission *s, size_t n_stop_tokens,
                         uint32_t vocabulary)
{
  return s->grammar != NULL || lls_lists_have_base(s) || s->n_bad_words > 0 ||
         n_stop_tokens >= vocabulary;
}

/* Sets the bits of all tokens, and no bits after them. */
static void fill(uint32_t *mask, uint32_t vocabulary)
{
  size_t words = lls_mask_words(vocabulary);
  memset(mask, 0xff, words * sizeof *mask);
  if (vocabulary % 32 != 0)
    mask[words - 1] = (UINT32_C(1) << (vocabulary % 32)) - 1;
}

void lls_lists_fill_base(const struct lls_submission *s, uint32_t vocabulary,
                         uint32_t *base)
{
  size_t words = lls_mask_words(vocabulary);
  fill(base, vocabulary);
  for (size_t i = 0; s->sampling.allowed != NULL && i < words; i++)
    base[i] &= s->sampling.allowed[i];
  for (uint32_t i = 0; i < s->sampling.n_bias; i++)
    if (s->sampling.bias[i].bias <= NEVER)
      clear(base, vocabulary, s->sampling.bias[i].token);
  for (uint32_t i = 0; i < s->n_bad_words; i += 1 + (uint32_t)s->bad_words[i])
    if (s->bad_words[i] == 1)
      clear(base, vocabulary, s->bad_words[i + 1]);
}

/* ---- before each draw -------------------------------------------------------------- */

/* ahead: guesses behind the text that count as text. */

/* Clears the last token of each bad word whose earlier tokens end the answer so far. */
static void ban_words(const struct lls_live *live, uint32_t ahead, uint32_t vocabulary,
                      uint32_t *mask)
{
  const struct lls_request *v = &live->view;
  uint32_t n = v->generated_tokens + ahead;
  const int32_t *behind = live->tokens + v->prompt_tokens + n;
  const int32_t *end = live->bad_words + live->n_bad_words;
  for (const int32_t *at = live->bad_words; at < end; at += 1 + at[0]) {
    uint32_t before = (uint32_t)at[0] - 1;
    if (n >= before && memcmp(behind - before, at + 1, before * sizeof *at) == 0)
      clear(mask, vocabulary, at[at[0]]);
  }
}

/* Clears tokens of the mask; with a grammar, those that were set are stored in
 * `held`. */
static void hold(const struct lls_live *live, const int32_t *tokens, uint32_t n_tokens,
                 uint32_t vocabulary, uint32_t *mask, uint32_t *n_held)
{
  for (uint32_t i = 0; i < n_tokens; i++) {
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= vocabulary || !has(mask, tokens[i]))
      continue;
    clear(mask, vocabulary, tokens[i]);
    if (live->constraint.grammar != NULL)
      live->held[(*n_held)++] = tokens[i];
  }
}

/* Clears the stop tokens and the tokens that end the grammar's text. With a grammar
 * they stay if no other token is allowed. */
static void ban_stops(const struct lls_live *live, uint32_t vocabulary, uint32_t *mask)
{
  const struct lls_grammar *grammar = live->constraint.grammar;
  const struct lls_vocabulary *v =
      grammar != NULL ? lls_grammar_vocabulary(grammar) : NULL;
  uint32_t n = 0;
  hold(live, live->stop_tokens, live->n_stop_tokens, vocabulary, mask, &n);
  if (v != NULL)
    hold(live, v->ends, v->n_ends, vocabulary, mask, &n);
  if (n == 0 || has_any(mask, lls_mask_words(vocabulary)))
    return;
  while (n-- > 0)
    mask[live->held[n] / 32] |= UINT32_C(1) << (live->held[n] % 32);
}

static bool holds_stops(const struct lls_live *live, uint32_t ahead)
{
  return live->view.generated_tokens + ahead < live->min_new_tokens;
}

/* Clears the tokens that the lists forbid. Returns false if none is left; the mask then
 * still has a token, since devices draw one, and commit.c drops it. */
static bool cut(const struct lls_live *live, uint32_t ahead, uint32_t *mask,
                uint32_t vocabulary)
{
  size_t words = lls_mask_words(vocabulary);
  for (size_t i = 0; live->allowed != NULL && i < words; i++)
    mask[i] &= live->allowed[i];
  ban_words(live, ahead, vocabulary, mask);
  if (holds_stops(live, ahead))
    ban_stops(live, vocabulary, mask);
  if (has_any(mask, words))
    return true;
  mask[0] = 1;
  return false;
}

/* Sets the mask to the whole vocabulary, less what the lists forbid. */
static bool cut_all(const struct lls_live *live, uint32_t ahead, uint32_t *mask,
                    uint32_t vocabulary)
{
  fill(mask, vocabulary);
  return cut(live, ahead, mask, vocabulary);
}

bool lls_lists_cut(const struct lls_instance *in, const struct lls_live *live,
                   uint32_t ahead, uint32_t *mask, uint32_t vocabulary)
{
  LLS_ON_STEP(in);
  return cut(live, ahead, mask, vocabulary);
}

bool lls_lists_set_ahead(const struct lls_instance *in, const struct lls_live *live,
                         uint32_t ahead, uint32_t *mask, struct lls_sampling *s)
{
  LLS_ON_STEP(in);
  s->allowed = live->constraint.mask != NULL ? mask : NULL;
  s->banned = live->stop_tokens;
  s->n_banned = s->allowed == NULL && holds_stops(live, ahead) ? live->n_stop_tokens : 0;
  return s->allowed == NULL || live->constraint.grammar != NULL ||
         cut_all(live, ahead, mask, lls_engine_config(in->engine)->vocab);
}

void lls_lists_set(struct lls_instance *in, struct lls_live *live)
{
  LLS_ON_STEP(in);
  live->exhausted =
      !lls_lists_set_ahead(in, live, 0, live->constraint.mask, &live->sampling);
}

uint32_t lls_lists_end(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  return c->grammar != NULL && !lls_grammar_may_end(c->state) ? LLS_FINISH_LENGTH
                                                              : LLS_FINISH_STOP;
}

int lls_lists_check(const struct lls_live *live, uint32_t vocabulary,
                    struct lls_error *err)
{
  LLS_ON_MAIN_THREAD();
  if (live->allowed != NULL && !has_any(live->allowed, lls_mask_words(vocabulary)))
    return lls_fail(
        err, -EINVAL,
        "allowed_token_ids, bad_words and logit_bias (-100) together leave no "
        "token that could be drawn: loosen one of them");
  if (live->constraint.grammar == NULL && live->constraint.mask != NULL &&
      !cut_all(live, 0, live->constraint.mask, vocabulary))
    return lls_fail(
        err, -EINVAL,
        "allowed_token_ids, bad_words and logit_bias (-100) leave only tokens "
        "that end the answer, which min_tokens forbids: loosen one of them");
  return 0;
}
