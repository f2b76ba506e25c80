/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of requests, each with its automaton, and those that sessions left: the next
 * request of a session continues them, so that what it repeats of earlier turns is
 * known and need not be read again. All of them together take at most a given memory;
 * for more, the sessions that were not used for longest are forgotten.
 */
#ifndef NGRAM_TEXTS_H
#define NGRAM_TEXTS_H

#include <llmserve/drafter.h>

#include "automaton.h"
#include "odds.h"

struct text {
  struct automaton automaton;
  uint32_t read;  /* tokens of the request that the automaton has, from its first on */
  uint32_t begin; /* place of the request's token number `skip` in the automaton's text */
  uint32_t skip;
  uint32_t expected; /* tokens of r->expected that the automaton has; they come first */
  uint32_t followed; /* tokens of the answer that are those of r->expected */
  struct own_odds own;
  /* the newest guesses, behind a match of `match` tokens of a sequence of `length` */
  uint32_t n_guesses, match, length;
  int32_t *guesses; /* (max_drafts) behind the struct */
  uint64_t session; /* 0: none */
  struct text *older, *newer;
};

struct texts {
  struct text **by_slot; /* (slots) NULL: no request */
  uint32_t slots, max_drafts;
  struct text *oldest, *newest; /* of sessions without a request */
  uint32_t n_left;
  size_t bytes, most_bytes;
};

/* Returns 0 or -ENOMEM. */
int texts_init(struct texts *, uint32_t slots, uint32_t max_drafts, size_t most_bytes);
void texts_free(struct texts *);

/* Returns the text of a request, at its arrival: its session's, if that left one; NULL
 * without memory. */
struct text *texts_begin(struct texts *, const struct lls_request *);
/* The request has ended; keep: its session may continue the text. */
void texts_end(struct texts *, const struct lls_request *, bool keep);
/* Reads up to `pace` further tokens of the request. Returns true if its text has all of
 * them; false also if there is no memory for it. */
bool texts_read(struct texts *, struct text *, const struct lls_request *, uint32_t pace);

#endif
