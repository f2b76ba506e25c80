/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of blocks in a file, which only a server with the same model, device and
 * settings reads again, of a version with the same number of blocks. */
#ifndef LLS_RECORD_PERSISTENT_SHAPE_H
#define LLS_RECORD_PERSISTENT_SHAPE_H

#include "core/device/pool_shape.h"

#define LLS_PERSISTENT_IDENTITY 640

/* Is raised by a release whose blocks differ from those of the release before by more
 * than rounding: another layout, or a mended bug in what layers compute. Every other
 * upgrade, and its rollback, keeps the blocks on disk. */
#define LLS_PERSISTENT_BLOCKS 1

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
