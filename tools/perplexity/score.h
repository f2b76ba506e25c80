/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How well logits predict the tokens that follow, and how far two models' distributions
 * are from each other: means over scored tokens, with their standard errors.
 *
 * An error is that of independent tokens, s / sqrt(n). Tokens of a text are not quite
 * independent, so it is somewhat too small.
 */
#ifndef LLS_PERPLEXITY_SCORE_H
#define LLS_PERPLEXITY_SCORE_H

#include <stdint.h>

struct lls_mean {
  uint64_t n;
  double mean, squares; /* of the differences to the mean */
};

void lls_mean_add(struct lls_mean *, double x);
/* The standard error of the mean; NAN below two numbers. */
double lls_mean_error(const struct lls_mean *);

struct lls_score {
  struct lls_mean loss; /* -ln p(token), of the model */

  /* Only where there is a reference: */
  struct lls_mean reference_loss;
  struct lls_mean difference; /* loss - reference_loss, token by token */
  struct lls_mean divergence; /* KL(reference || model), nats */
  struct lls_mean agreement;  /* 1 where both find the same token the likeliest, else 0 */
};

/* One scored token: its model's logits and maybe the reference's, else NULL; (vocab). */
void lls_score_add(struct lls_score *, const float *logits, const float *reference,
                   uint32_t vocab, int32_t token);

#endif
