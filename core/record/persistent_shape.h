/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of blocks in a file, which only the same model, device, settings and
 * version read again. */
#ifndef LLS_RECORD_PERSISTENT_SHAPE_H
#define LLS_RECORD_PERSISTENT_SHAPE_H

#include "core/device/pool_shape.h"

#define LLS_PERSISTENT_IDENTITY 640

struct lls_persistent_shape {
  char identity[LLS_PERSISTENT_IDENTITY]; /* names model, device, settings */
  uint32_t block_tokens;
  uint32_t unused; /* 0: shapes are compared as bytes */
  /* of a block of each group in the pool; 0: there is no such group */
  uint64_t block_bytes[LLS_MAX_GROUPS];
  uint32_t block_form[LLS_MAX_GROUPS]; /* enum lls_form */
};

struct lls_instance;

/* Returns the identity of this instance's blocks. [main] */
struct lls_persistent_shape lls_persistent_shape_of(const struct lls_instance *);

#endif
