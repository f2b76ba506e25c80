/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See text_search.h. A depth-first search through the tokens that the grammar and
 * `allowed` permit: if there is a text, it is found soon; if not, the search mostly
 * ends after a few tokens. Beyond DEPTH tokens, MASKS masks or WORK units of work the
 * search is given up: the step loop ends an answer that cannot continue.
 */
#include "text/grammar/text_search.h"

#include "core/base/least.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 24
#define MASKS 128
#define WORK  (UINT64_C(1) << 22)
/* The grammar's lock is released between pieces, for the step thread. */
#define PIECE UINT64_C(20000)

enum found { NONE, TEXT, GIVEN_UP };

struct search {
  const uint32_t *allowed;
  size_t words, state_bytes;
  uint32_t masks_left;
  uint64_t work;
  char *states;    /* (DEPTH + 1) states */
  uint32_t *masks; /* (DEPTH + 1, words) */
};

static struct lls_grammar_state *state_at(const struct search *s, uint32_t depth)
{
  return (struct lls_grammar_state *)(s->states + depth * s->state_bytes);
}

/* Fills the mask at a depth with the tokens that may follow and are allowed. */
static enum found fill(struct search *s, uint32_t depth)
{
  struct lls_mask_progress progress = {0};
  uint32_t *mask = s->masks + depth * s->words;
  if (depth == DEPTH || s->masks_left == 0)
    return GIVEN_UP;
  s->masks_left--;
  int rc = -EAGAIN;
  while (rc == -EAGAIN && s->work > 0) {
    uint64_t piece = PIECE;
    rc = lls_grammar_fill_mask_some(state_at(s, depth), mask, &progress, &piece);
    s->work -= lls_least_u64(s->work, PIECE - piece);
  }
  if (rc < 0)
    return GIVEN_UP;
  for (size_t i = 0; i < s->words; i++)
    mask[i] &= s->allowed[i];
  return NONE;
}

/* Removes the next token from the mask at a depth, and returns it; -1 if there is
 * none. */
static int32_t next_token(const struct search *s, uint32_t depth)
{
  uint32_t *mask = s->masks + depth * s->words;
  for (size_t i = 0; i < s->words; i++) {
    if (mask[i] == 0)
      continue;
    int32_t token = (int32_t)(32 * i) + __builtin_ctz(mask[i]);
    mask[i] &= mask[i] - 1;
    return token;
  }
  return -1;
}

/* Ends the search if the text is complete; else computes how the state at a depth can
 * continue. */
static enum found enter(struct search *s, uint32_t depth)
{
  return lls_grammar_may_end(state_at(s, depth)) ? TEXT : fill(s, depth);
}

static enum found look(struct search *s)
{
  uint32_t depth = 0;
  enum found found = enter(s, 0);
  while (found == NONE) {
    int32_t token = next_token(s, depth);
    if (token < 0 && depth-- == 0)
      return NONE;
    if (token < 0)
      continue;
    memcpy(state_at(s, depth + 1), state_at(s, depth), s->state_bytes);
    int rc = lls_grammar_accept_token(state_at(s, depth + 1), token);
    found = rc == 0 ? enter(s, ++depth) : GIVEN_UP;
  }
  return found;
}

int lls_grammar_find_text(struct lls_grammar *grammar, const uint32_t *allowed)
{
  struct search s = {.allowed = allowed,
                     .words = lls_vocabulary_words(lls_grammar_vocabulary(grammar)),
                     .state_bytes = lls_grammar_state_bytes(),
                     .masks_left = MASKS,
                     .work = WORK};
  s.states = malloc((DEPTH + 1) * s.state_bytes);
  s.masks = malloc((DEPTH + 1) * s.words * sizeof *s.masks);
  int rc = -ENOMEM;
  if (s.states != NULL && s.masks != NULL)
    rc = lls_grammar_state_init(state_at(&s, 0), grammar);
  if (rc == 0)
    rc = look(&s) != NONE;
  free(s.states);
  free(s.masks);
  return rc;
}
