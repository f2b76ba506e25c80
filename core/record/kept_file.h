/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of kept prompts: blocks of tokens with their K and V, as they lay in the pool.
 *
 *   head     what it is of: identity, sizes
 *   n times  the block before it, its key
 *   n times  K, V
 *   sum      of all that
 *
 * Invariant: what lls_kept_file_open accepts is whole, and of this very model, device,
 * settings and version. It is read where it was written: numbers are the machine's own.
 */
#ifndef LLS_RECORD_KEPT_FILE_H
#define LLS_RECORD_KEPT_FILE_H

#include <llmserve/cache.h>

#include "core/base/error.h"

#define LLS_KEPT_IDENTITY 640

struct lls_kept_shape {
  char identity[LLS_KEPT_IDENTITY]; /* of what computed the blocks */
  uint32_t block_tokens;
  uint32_t unused; /* 0: it is compared as bytes */
  uint64_t unit_bytes;
};

/* Bytes that a block takes in the file. */
uint64_t lls_kept_block_bytes(const struct lls_kept_shape *);

struct lls_kept_file {
  unsigned char *map;
  size_t bytes;
  uint32_t n;
  struct lls_kept_block *blocks; /* (n) units unset */
  const unsigned char *units;    /* (n, 2, unit_bytes) */
};

/* -ENOENT: there is none; -ESTALE: it is of something else; -EINVAL: it is broken. */
int lls_kept_file_open(const char *path, const struct lls_kept_shape *,
                       struct lls_kept_file *out, struct lls_error *err);
void lls_kept_file_close(struct lls_kept_file *);

/* Replaces the file as a whole; `read` copies a unit block to memory. */
int lls_kept_file_write(const char *path, const struct lls_kept_shape *,
                        const struct lls_kept_block *, uint32_t n,
                        int (*read)(void *context, uint32_t unit, void *to),
                        void *context, struct lls_error *err);

#endif
