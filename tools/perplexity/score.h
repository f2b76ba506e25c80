/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How well logits predict the next tokens, and the distance between two models'
 * distributions: means over scored tokens, with their standard errors.
 *
 * The errors, s / sqrt(n), assume independent tokens. Tokens of a text are not quite
 * independent, so the errors are somewhat too small.
 */
#ifndef LLS_PERPLEXITY_SCORE_H
#define LLS_PERPLEXITY_SCORE_H

#include <stdint.h>

struct lls_mean {
  uint64_t n;
  double mean, squares; /* squares: sum of squared differences from the mean */
};

void lls_mean_add(struct lls_mean *, double x);
/* Returns the standard error of the mean; NAN for fewer than two values. */
double lls_mean_error(const struct lls_mean *);

struct lls_score {
  struct lls_mean loss; /* -ln p(token) of the model */

  /* Only with a reference: */
  struct lls_mean reference_loss;
  struct lls_mean difference; /* loss - reference_loss, token by token */
  struct lls_mean divergence; /* KL(reference || model), nats */
  struct lls_mean agreement;  /* 1 if both have the same likeliest token, else 0 */
};

/* Adds one scored token: the logits (vocab) of the model and of the reference, or
 * NULL. */
void lls_score_add(struct lls_score *, const float *logits, const float *reference,
                   uint32_t vocab, int32_t token);

#endif
