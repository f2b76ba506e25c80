/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fallback of the paper: a perceptron with one hidden layer (ReLU) from the prompt's
 * vector to the logarithm of the length, written by tools/predictor/train.py.
 *
 * The file: "llmserve-length 1 INPUTS HIDDEN DEVIATION\n", then little-endian f32: hidden
 * weights (HIDDEN, INPUTS), hidden biases, output weights (HIDDEN), output bias.
 */
#ifndef LLS_RETRIEVAL_REGRESSOR_H
#define LLS_RETRIEVAL_REGRESSOR_H

#include <llmserve/host.h>

struct regressor;

/* Returns 0; -ENOENT without a message if there is no such file; another -errno after
 * host->fail. */
int regressor_read(const char *path, uint32_t inputs, const struct lls_host *,
                   struct regressor **out);
void regressor_free(struct regressor *);
/* Returns the estimated mean of the logarithm of the length. */
double regressor_log_length(const struct regressor *, const float *vector);
/* Returns the deviation on validation data. */
double regressor_deviation(const struct regressor *);

#endif
