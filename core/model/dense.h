/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense modules of sentence-transformers behind the pooling (EmbeddingGemma has two):
 * matrices in folders of their own, which modules.json lists. Those without a bias and
 * an activation are one linear map together, which commutes with the mean of rows.
 */
#ifndef LLS_MODEL_DENSE_H
#define LLS_MODEL_DENSE_H

#include <stdint.h>

#include "core/base/error.h"

#define LLS_MAX_DENSE 4

struct lls_dense {
  uint32_t n; /* 0: the folder has none */
  struct lls_dense_matrix {
    char folder[64]; /* below the model's; a GGUF file: the tensor's name */
    uint32_t inputs, outputs;
  } matrix[LLS_MAX_DENSE]; /* (n) in the order in which a vector passes them */
};

/* Reads modules.json and the modules' config.json, or a GGUF file's dense_2 and dense_3.
 * A folder without modules.json has none. Returns 0; -EINVAL for a broken file; -ENOTSUP,
 * with the reason in err, for a module that is no linear map, or for matrices that do not
 * fit each other. */
int lls_dense_read(const char *folder, struct lls_dense *out, struct lls_error *err);

/* Reads the matrices and multiplies them: *out (outputs of the last, inputs of the first)
 * is the caller's to free. */
int lls_dense_load(const char *folder, const struct lls_dense *, float **out,
                   struct lls_error *err);

#endif
