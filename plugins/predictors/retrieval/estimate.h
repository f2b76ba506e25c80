/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates a length from similar prompts or a length model (ALISE, section 3.1), and
 * measures how good predictions were. */
#ifndef LLS_RETRIEVAL_ESTIMATE_H
#define LLS_RETRIEVAL_ESTIMATE_H

#include <llmserve/types.h>

#define ESTIMATE_SAME                                                                    \
  0.99999f /* cosine of prompts that are the same; f32 rounds at 1e-7 */

struct neighbour {
  float similarity;
  uint32_t length;
};

/* Sets length, low, high and confidence; returns false if none of the n neighbours is as
 * similar as s0. */
bool estimate_from_neighbours(const struct neighbour *, uint32_t n, double s0,
                              uint32_t max_new_tokens, struct lls_prediction *out);
/* For a prompt that was served before: predicts the length of its earlier answer. Returns
 * false if the nearest neighbour is another prompt. */
bool estimate_from_itself(const struct neighbour *, uint32_t n, uint32_t max_new_tokens,
                          struct lls_prediction *out);
/* Counts the length model as a number of neighbours more, see estimate.c. Returns false
 * if no neighbour is near enough. */
bool estimate_from_both(const struct neighbour *, uint32_t n, double s0, double mean,
                        double deviation, uint32_t max_new_tokens,
                        struct lls_prediction *out);
/* Estimates from the regressor's output: the logarithm of the length is normal with this
 * mean and deviation. */
void estimate_from_log(double mean, double deviation, uint32_t max_new_tokens,
                       struct lls_prediction *out);

/*
 * How good predictions were: means over about the last 256, and the median length of the
 * last 256 answers. Accuracy is the paper's: the fraction of predictions in the same bin
 * as the actual length, with bins of equal width.
 */
#define JUDGE_LENGTHS 256

struct judge {
  double error;      /* |predicted - actual| / actual */
  double accuracy;   /* share in the same bin */
  double neighbours; /* share of predictions with a neighbour near enough */
  uint64_t judged, predicted;
  uint32_t lengths[JUDGE_LENGTHS]; /* a ring */
  uint64_t n_lengths;
  uint32_t median; /* 256 before the first answer */
};

void judge_init(struct judge *);
/* counts a prediction that was made */
void judge_prediction(struct judge *, uint32_t source);
void judge_answer(struct judge *, uint32_t predicted, uint32_t actual, uint32_t bin);
/* counts an answer's length, for the median */
void judge_length(struct judge *, uint32_t actual);

#endif
