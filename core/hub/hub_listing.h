/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's list of a model's files: the commit that "main" is, and each file's size and
 * hash. */
#ifndef LLS_HUB_LISTING_H
#define LLS_HUB_LISTING_H

#include "core/base/sha256.h"
#include "core/hub/hub_choice.h"

struct lls_hub_listed {
  struct lls_hub_file file; /* first: see lls_hub_choose */
  uint64_t size;
  /* SHA-256, or of a file that git itself stores the hash of git_blob.h; the blob's name
   * in the cache */
  char hash[LLS_SHA256_HEX];
  bool is_sha256;
};

struct lls_hub_listing {
  char commit[LLS_SHA256_HEX];  /* hex digits */
  struct lls_hub_listed *files; /* (n) */
  size_t n;
};

/* [any] Reads the hub's answer. Names that would lead out of a folder are left out.
 * Returns 0, -EPROTO or -ENOMEM; *out is empty then. */
int lls_hub_listing_read(const char *text, size_t length, struct lls_hub_listing *out);
void lls_hub_listing_free(struct lls_hub_listing *);

#endif
