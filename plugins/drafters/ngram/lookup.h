/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses by what followed the same tokens before: the texts of all requests (texts.h),
 * and how often such guesses were right (odds.h). The drafters ngram and auto have one.
 */
#ifndef NGRAM_LOOKUP_H
#define NGRAM_LOOKUP_H

#include <llmserve/drafter.h>

#include "odds.h"
#include "texts.h"

/* Parameters of a drafter that has a lookup, and their rows in its table. */
struct lookup_params {
  int64_t min_match, memory, pace;
};

#define LOOKUP_PARAMETERS                                                                \
  LLS_PARAM_INT(struct lookup_params, min_match, "2", 1, 64, "tokens",                   \
                "fewest tokens at the end of a text that must occur earlier in it",      \
                .flags = LLS_PARAM_RELOADABLE),                                          \
      LLS_PARAM_BYTES(struct lookup_params, memory, "256MiB", 65536, 1125899906842624,   \
                      "most memory of all texts together, some 150 bytes a token",       \
                      .flags = LLS_PARAM_RELOADABLE),                                    \
      LLS_PARAM_INT(struct lookup_params, pace, "512", 1, 1e6, "tokens",                 \
                    "tokens of a prompt that are read between two steps",                \
                    .flags = LLS_PARAM_RELOADABLE)

struct lookup {
  struct texts texts;
  struct odds odds;
  uint32_t min_match; /* tokens that must be the same at least */
  uint32_t pace;      /* tokens of a prompt that are read in one call */
};

/* Returns 0 or -ENOMEM. */
int lookup_init(struct lookup *, const struct lls_host *);
void lookup_set(struct lookup *, const struct lookup_params *);
void lookup_free(struct lookup *);

void lookup_begin(struct lookup *, const struct lls_request *);
/* reason: enum lls_finish_reason */
void lookup_end(struct lookup *, const struct lls_request *, uint32_t reason);
/* Reads what is new of the request's text, learns from it, and writes at most `max`
 * guesses with their odds. Returns how many. */
uint32_t lookup_guess(struct lookup *, const struct lls_request *, uint32_t max,
                      int32_t *tokens, float *odds);

#endif
