/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a text's vector is computed from its tokens' output vectors, as
 * sentence-transformers stores it in a model's folder: modules.json and
 * 1_Pooling/config.json; and whether the first numbers of a vector are a valid shorter
 * vector (Matryoshka), from config.json.
 */
#ifndef LLS_MODEL_POOLING_H
#define LLS_MODEL_POOLING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum lls_pooling {
  LLS_POOLING_NONE,
  LLS_POOLING_LAST, /* the last token's vector */
  LLS_POOLING_MEAN, /* the mean of all tokens' vectors */
  LLS_POOLING_CLS,  /* the first token's vector, for encoders */
};

#define LLS_MAX_DIMENSIONS 16

struct lls_pooling_config {
  uint32_t pooling; /* enum lls_pooling */
  bool is_written;  /* set by the folder or the operator, not the fallback */
  bool dense;       /* a linear map follows (dense.h) */
  bool matryoshka;  /* a vector may be shortened: to any length, or, with dimensions, */
  uint32_t n_dimensions;
  uint32_t dimensions[LLS_MAX_DIMENSIONS]; /* (n_dimensions) to these lengths only */
  struct lls_error why_none;               /* the reason for LLS_POOLING_NONE */
};

/* Reads a folder or GGUF file. fallback: the pooling if the model sets none. A pooling
 * that is not supported becomes LLS_POOLING_NONE. Returns -EINVAL if a file is broken. */
int lls_pooling_read(const char *folder, enum lls_pooling fallback,
                     struct lls_pooling_config *out, struct lls_error *err);

/* Returns true if vectors of `columns` numbers may be shortened to `dimensions`. */
bool lls_pooling_allows(const struct lls_pooling_config *, uint32_t columns,
                        int64_t dimensions);

#endif
