/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the repetitions that a token would continue; see dry.h. */
#include "core/instance/dry.h"

#include <math.h>
#include <string.h>

#define MOST_LOG 88.0 /* exp of more is no float */

static bool is_breaker(const struct lls_dry_breakers *b, int32_t token,
                       uint32_t vocabulary)
{
  return b->tokens != NULL && token >= 0 && (uint32_t)token < vocabulary &&
         (b->tokens[token / 32] >> (token % 32) & 1) != 0;
}

/* Returns true if a breaker ends behind the first n tokens. */
static bool breaks_at(const struct lls_dry_breakers *b, const int32_t *tokens, uint32_t n,
                      uint32_t vocabulary)
{
  const int32_t *end = b->sequences + b->n_sequences;
  if (is_breaker(b, tokens[n - 1], vocabulary))
    return true;
  for (const int32_t *at = b->sequences; at < end; at += 1 + at[0]) {
    uint32_t length = (uint32_t)at[0];
    if (at[length] == tokens[n - 1] && length <= n &&
        memcmp(tokens + n - length, at + 1, length * sizeof *at) == 0)
      return true;
  }
  return false;
}

/* Finds the end of the last breaker, among new tokens only. */
static void find_breaker(struct lls_dry_state *s, const int32_t *tokens, uint32_t n,
                         uint32_t vocabulary)
{
  uint32_t at = n;
  while (at > s->checked && !breaks_at(&s->breakers, tokens, at, vocabulary))
    at--;
  if (at > s->checked)
    s->broken = at;
  s->checked = n;
}

/*
 * Sets matches[k], for each k in [1, n), to the number of tokens that the text's end has
 * in common with the text's end k tokens earlier. This is the Z function of the reversed
 * text, in linear time: [left, right) is the match found so far that reaches furthest.
 */
static void match_ends(const int32_t *tokens, uint32_t n, uint32_t *matches)
{
  const int32_t *last = tokens + n - 1;
  uint32_t left = 0, right = 0;
  for (uint32_t k = 1; k < n; k++) {
    uint32_t m = 0;
    if (k < right) {
      uint32_t inside = right - k, known = matches[k - left];
      m = known < inside ? known : inside;
    }
    while (k + m < n && last[-(int64_t)m] == last[-(int64_t)(k + m)])
      m++;
    matches[k] = m;
    if (k + m > right) {
      left = k;
      right = k + m;
    }
  }
}

static float penalty_of(const struct lls_dry *d, uint32_t length)
{
  double exponent = (double)(length - d->allowed_length), most = exponent;
  if (d->base > 1.000001f)
    most = MOST_LOG / log((double)d->base);
  exponent = exponent < most ? exponent : most;
  return d->multiplier * (float)pow((double)d->base, exponent);
}

uint32_t lls_dry_penalise(struct lls_dry_state *s, const int32_t *tokens, uint32_t n,
                          uint32_t vocabulary, struct lls_logit_bias *out)
{
  const struct lls_dry *d = &s->dry;
  uint32_t found = 0;
  find_breaker(s, tokens, n, vocabulary);
  uint32_t seen = d->last_n > 0 && d->last_n < n ? d->last_n : n;
  uint32_t limit = n - s->broken < seen ? n - s->broken : seen;
  if (seen <= d->allowed_length || limit < d->allowed_length)
    return 0;
  match_ends(tokens + n - seen, seen, s->matches);
  for (uint32_t k = 1; k < seen; k++) {
    uint32_t length = s->matches[k] < limit ? s->matches[k] : limit;
    int32_t next = tokens[n - k];
    if (length < d->allowed_length || next < 0 || (uint32_t)next >= vocabulary ||
        is_breaker(&s->breakers, next, vocabulary))
      continue;
    if (s->longest[next] == 0)
      out[found++].token = next;
    if (s->longest[next] < length + 1)
      s->longest[next] = length + 1;
  }
  for (uint32_t i = 0; i < found; i++) {
    out[i].bias = -penalty_of(d, s->longest[out[i].token] - 1);
    s->longest[out[i].token] = 0;
  }
  return found;
}
