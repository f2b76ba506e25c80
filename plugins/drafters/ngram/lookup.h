/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses by what followed the same tokens before: the texts of all requests (texts.h),
 * and how often such guesses were right (odds.h). The drafters ngram and auto have one.
 */
#ifndef NGRAM_LOOKUP_H
#define NGRAM_LOOKUP_H

#include "odds.h"
#include "texts.h"

struct lookup {
  struct texts texts;
  struct odds odds;
  uint32_t min_match; /* tokens that must be the same at least */
  uint32_t pace;      /* tokens of a prompt that are read in one call */
};

/* Returns 0 or -ENOMEM. The members are the caller's to set. */
int lookup_init(struct lookup *, uint32_t slots, uint32_t max_drafts);
void lookup_free(struct lookup *);

void lookup_begin(struct lookup *, const struct lls_request *);
/* reason: enum lls_finish_reason */
void lookup_end(struct lookup *, const struct lls_request *, uint32_t reason);
/* Reads what is new of the request's text, learns from it, and writes at most `max`
 * guesses with their odds. Returns how many. */
uint32_t lookup_guess(struct lookup *, const struct lls_request *, uint32_t max,
                      int32_t *tokens, float *odds);

#endif
