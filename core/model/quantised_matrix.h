/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix under assembly; used by the files quantised_*.c of this folder only. */
#ifndef LLS_MODEL_QUANTISED_MATRIX_H
#define LLS_MODEL_QUANTISED_MATRIX_H

#include "core/model/quantisation.h"

struct lls_making {
  const struct lls_scheme *scheme;
  const char *base; /* the matrix's name without ".weight" */
  const struct lls_stored_source *source;
  struct lls_coded *out;
  struct lls_error *err;
};

/* Finds BASE.SUFFIX. Returns 0, -ENOENT, or another error with its sentence. */
int lls_making_find(const struct lls_making *, const char *suffix,
                    struct lls_stored *out);

/* Checks a tensor's type, and its shape: (rows, columns), or (columns) if rows is 1.
 * Returns 0, -ENOTSUP or -EINVAL. */
int lls_making_check(const struct lls_making *, const char *suffix,
                     const struct lls_stored *, const char *type, uint64_t rows,
                     uint64_t columns);

/* Finds and checks a mandatory tensor; *out gets its data. */
int lls_making_need(const struct lls_making *, const char *suffix, const char *type,
                    uint64_t rows, uint64_t columns, const void **out);

/* Assembles a matrix of bitsandbytes' 4 bits. */
int lls_making_list(const struct lls_making *);

#endif
