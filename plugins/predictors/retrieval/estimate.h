/* SPDX-License-Identifier: Apache-2.0 */
/* From neighbours, or from nothing, to a length: ALISE, section 3.1. */
#ifndef LLS_RETRIEVAL_ESTIMATE_H
#define LLS_RETRIEVAL_ESTIMATE_H

#include <llmserve/types.h>

#define ESTIMATE_SAME                                                                    \
  0.99999f /* cosine of prompts that are the same; f32 rounds at 1e-7 */

struct neighbour {
  float similarity;
  uint32_t length;
};

/* False: none of the n is near enough (s0). length, low, high, confidence are set. */
bool estimate_from_neighbours(const struct neighbour *, uint32_t n, double s0,
                              uint32_t max_new_tokens, struct lls_prediction *out);
/* A prompt that was served before: its own answer's length, whatever others say. False:
 * the nearest of them is another prompt. */
bool estimate_from_itself(const struct neighbour *, uint32_t n, uint32_t max_new_tokens,
                          struct lls_prediction *out);
/* The length model counts as some neighbours more, see estimate.c; false if none is near.
 */
bool estimate_from_both(const struct neighbour *, uint32_t n, double s0, double mean,
                        double deviation, uint32_t max_new_tokens,
                        struct lls_prediction *out);
/* The exponential of a normal with this mean and deviation: the regressor's. */
void estimate_from_log(double mean, double deviation, uint32_t max_new_tokens,
                       struct lls_prediction *out);

/*
 * How good predictions were: means over about the last 256, and the median length of the
 * last 256 answers. Accuracy is the paper's: prediction and truth in the same of evenly
 * divided bins.
 */
#define JUDGE_LENGTHS 256

struct judge {
  double error;      /* |predicted - actual| / actual */
  double accuracy;   /* share in the same bin */
  double neighbours; /* share of predictions that had any near enough */
  uint64_t judged, predicted;
  uint32_t lengths[JUDGE_LENGTHS]; /* a ring */
  uint64_t n_lengths;
  uint32_t median; /* 256 before the first */
};

void judge_init(struct judge *);
void judge_prediction(struct judge *, uint32_t source); /* one was made */
void judge_answer(struct judge *, uint32_t predicted, uint32_t actual, uint32_t bin);
void judge_length(struct judge *, uint32_t actual); /* for the median */

#endif
