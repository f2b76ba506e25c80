/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name that git gives to a file's contents: SHA-1 of "blob SIZE", a NUL and the
 * bytes, in hex digits. The hub names small files by it. It finds damage in transfer; an
 * attacker could forge it, but weights are named by SHA-256.
 */
#ifndef LLS_HUB_GIT_BLOB_H
#define LLS_HUB_GIT_BLOB_H

#include <stddef.h>
#include <stdint.h>

#define LLS_GIT_BLOB_HEX 41 /* digits and NUL */

struct lls_git_blob {
  uint32_t state[5];
  uint64_t bytes;
  unsigned char block[64];
};

/* `size` is that of the whole contents. */
void lls_git_blob_begin(struct lls_git_blob *, uint64_t size);
void lls_git_blob_add(struct lls_git_blob *, const void *data, size_t n);
void lls_git_blob_end(struct lls_git_blob *, char hex[LLS_GIT_BLOB_HEX]);

#endif
