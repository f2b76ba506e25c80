/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens that a request's lists leave to the next draw: allowed_token_ids and
 * bad_words, vLLM's, beside the stop tokens that min_tokens keeps away. A word of several
 * tokens bans its last one where the answer so far ends with the others; the prompt does
 * not count.
 */
#include "core/loop/instance.h"

#include <string.h>

/* The word that begins at `at`: how many tokens it has, then they. */
static bool would_end(const struct lls_live *live, const int32_t *at)
{
  const struct lls_request *v = &live->view;
  uint32_t before = (uint32_t)at[0] - 1;
  const int32_t *end = live->tokens + v->prompt_tokens + v->generated_tokens;
  return v->generated_tokens >= before &&
         memcmp(end - before, at + 1, before * sizeof *at) == 0;
}

static uint32_t ban_words(const struct lls_live *live, uint32_t n)
{
  const int32_t *end = live->bad_words + live->n_bad_words;
  for (const int32_t *at = live->bad_words; at < end; at += 1 + at[0])
    if (would_end(live, at))
      live->banned[n++] = at[at[0]];
  return n;
}

void lls_lists_set(struct lls_instance *in, struct lls_live *live)
{
  struct lls_sampling *s = &live->sampling;
  LLS_ON_STEP(in);
  uint32_t n_stop = s->index < live->min_new_tokens ? live->n_stop_tokens : 0;
  s->banned = live->stop_tokens;
  s->n_banned = n_stop;
  s->allowed = live->constraint.mask; /* filled by lls_constraint_fill_masks */
  if (live->constraint.grammar == NULL)
    s->allowed = live->allowed;
  if (live->n_bad_words == 0)
    return;
  if (n_stop > 0)
    memcpy(live->banned, live->stop_tokens, n_stop * sizeof *live->banned);
  s->banned = live->banned;
  s->n_banned = ban_words(live, n_stop);
}

bool lls_lists_cut(const struct lls_instance *in, const struct lls_live *live,
                   uint32_t *mask, size_t words)
{
  uint32_t any = 0;
  LLS_ON_STEP(in);
  for (size_t i = 0; i < words; i++)
    any |= mask[i] &= live->allowed[i];
  return any != 0;
}
