/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRY ("don't repeat yourself"), a sampler that lowers the logit of each token that would
 * continue a repetition: P. E. Weidmann, pull request 5637 of text-generation-webui.
 *
 * If the text's last n tokens occurred before, then the token that followed them there is
 * lowered by multiplier * base ^ (n - allowed_length), for n of at least allowed_length.
 * A repetition does not reach across a breaker: a token, or a sequence of tokens, that
 * has such a text as a line's end in it.
 *
 * The penalties depend on the text alone, so they are biases of the next draw, which
 * every device has.
 */
#ifndef LLS_INSTANCE_DRY_H
#define LLS_INSTANCE_DRY_H

#include "core/device/sampling.h"

struct lls_dry {
  float multiplier; /* 0 = off */
  float base;
  uint32_t allowed_length;
  uint32_t last_n; /* tokens of the text that count; 0: all */
};

/* The breakers of a request, which owns the arrays' memory. */
struct lls_dry_breakers {
  uint32_t *tokens;   /* one bit per token of the vocabulary, or NULL: none */
  int32_t *sequences; /* (n_sequences) for each its number of tokens, then the tokens */
  uint32_t n_sequences;
};

struct lls_dry_state {
  struct lls_dry dry;
  struct lls_dry_breakers breakers;
  uint32_t *matches; /* (tokens of the longest text) scratch */
  uint32_t *longest; /* (vocabulary) scratch, all 0 between calls */
  uint32_t checked;  /* tokens of the text in which breakers were searched */
  uint32_t broken;   /* where the last breaker ends */
};

/* Writes a bias for each token that would continue a repetition in the n tokens of
 * the text; returns their number, which is less than n and at most `vocabulary`. The text
 * begins with that of the previous call. */
uint32_t lls_dry_penalise(struct lls_dry_state *state, const int32_t *tokens, uint32_t n,
                          uint32_t vocabulary, struct lls_logit_bias *out);

#endif
