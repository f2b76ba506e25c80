/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of what a cache holds. The key of a request's i-th full block is
 *
 *   key[i] = SipHash-2-4-128(secret, key[i-1] | token ids of block i),   key[-1] = its
 * salt
 *
 * so equal keys mean equal tokens in the block and in all before it, of requests with the
 * same salt. Cache managers share blocks by their keys alone and see no salt. Without the
 * secret, which is the process's own (or kept beside kept prompts), nobody can make two
 * prompts of one key: two of 1e9 blocks have the same by chance once in 1e20 servers. A
 * key of 16 tokens takes 40 ns (bench/block_keys).
 *
 * SipHash: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012; the
 * variant of 128 bits is of its authors' reference.
 */
#ifndef LLS_INSTANCE_BLOCK_KEYS_H
#define LLS_INSTANCE_BLOCK_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <llmserve/types.h>

#include "core/base/error.h"

struct lls_key_secret {
  uint64_t word[2];
};

struct lls_key lls_siphash(const struct lls_key_secret *, const void *data, size_t bytes);

/* The key of a block after `before`. */
struct lls_key lls_key_next(const struct lls_key_secret *, const struct lls_key *before,
                            const int32_t *tokens, uint32_t n);

/* The keys of one request, filled as its blocks get full. */
struct lls_keys {
  struct lls_key_secret secret;
  struct lls_key root;      /* key[-1] */
  struct lls_key *all;      /* room for every block it may have; NULL: it has none */
  uint32_t block_tokens, n; /* n: of its full blocks, the first */
};

/* Names the blocks that `length` tokens fill; called by the thread that has the request.
 */
void lls_keys_extend(struct lls_keys *, const int32_t *tokens, uint32_t length);

/* The secret that is kept in FOLDER/prompts-secret, made at random where there is none:
 * keys of kept prompts mean the same after a restart. "" or NULL: at random. */
int lls_key_secret_find(const char *folder, struct lls_key_secret *,
                        struct lls_error *err);

#endif
