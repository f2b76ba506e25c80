/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a text's vector is made of its tokens' output vectors, as sentence-transformers
 * writes it into a model's folder: modules.json and 1_Pooling/config.json; and
 * config.json, which says whether the beginning of a vector is one as well (Matryoshka).
 */
#ifndef LLS_MODEL_POOLING_H
#define LLS_MODEL_POOLING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum lls_pooling {
  LLS_POOLING_NONE,
  LLS_POOLING_LAST, /* the last token's vector */
  LLS_POOLING_MEAN, /* that of all tokens */
  LLS_POOLING_CLS,  /* the first token's: of encoders */
};

#define LLS_MAX_DIMENSIONS 16

struct lls_pooling_config {
  uint32_t pooling; /* enum lls_pooling */
  bool is_written;  /* by the folder or the operator: it is no fallback */
  bool matryoshka;  /* a vector may be cut: to any length, or if there are dimensions, */
  uint32_t n_dimensions;
  uint32_t dimensions[LLS_MAX_DIMENSIONS]; /* (n_dimensions) to these only */
  struct lls_error why_none;               /* with LLS_POOLING_NONE */
};

/* fallback: of a folder, or a GGUF file, that says nothing. What it says and is not done
 * here is LLS_POOLING_NONE; -EINVAL: a file is broken. */
int lls_pooling_read(const char *folder, enum lls_pooling fallback,
                     struct lls_pooling_config *out, struct lls_error *err);

/* True if vectors of `columns` numbers may be cut to that many. */
bool lls_pooling_allows(const struct lls_pooling_config *, uint32_t columns,
                        int64_t dimensions);

#endif
