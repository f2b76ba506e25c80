/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of persistent prompts: blocks of tokens with their K and V, and states after
 * some of them, copied from the pool.
 *
 *   head     identity of the model, device, settings and version; sizes
 *   n times  index of the parent block, group, key
 *   n times  K, V or states of the group's layers
 *   sum      checksum of everything above
 *
 * Invariant: a file that lls_persistent_file_open accepts is complete, and of this model,
 * device, settings and version. It is read on the machine that wrote it: numbers have
 * its byte order.
 */
#ifndef LLS_RECORD_PERSISTENT_FILE_H
#define LLS_RECORD_PERSISTENT_FILE_H

#include <llmserve/cache.h>

#include "core/base/error.h"
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

/* Returns how many of the first blocks fit into a file of `bytes` bytes. */
size_t lls_persistent_that_fit(const struct lls_persistent_shape *,
                               const struct lls_kept_block *, size_t n, uint64_t bytes);

struct lls_persistent_file {
  unsigned char *map;
  size_t bytes;
  uint32_t n;
  struct lls_kept_block *blocks; /* (n) without units */
  const unsigned char *contents; /* (n) each as long as its group's */
};

/* Returns 0; -ENOENT: no such file; -ESTALE: written with another identity; -EINVAL:
 * damaged. */
int lls_persistent_file_open(const char *path, const struct lls_persistent_shape *,
                             struct lls_persistent_file *out, struct lls_error *err);
void lls_persistent_file_close(struct lls_persistent_file *);

/* Replaces the file as a whole. `read` copies a group's block of the pool to memory. */
int lls_persistent_file_write(const char *path, const struct lls_persistent_shape *,
                              const struct lls_kept_block *, uint32_t n,
                              int (*read)(void *context, uint32_t group, uint32_t block,
                                          void *to),
                              void *context, struct lls_error *err);

#endif
