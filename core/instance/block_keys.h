/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of cached blocks. The key of a request's i-th full block is
 *
 *   key[i] = SipHash-2-4-128(secret, key[i-1] | token ids of block i),   key[-1] = salt
 *
 * so equal keys mean equal tokens in the block and in all blocks before it, of requests
 * with the same salt. Cache managers share blocks by their keys alone and see no salt.
 * The secret belongs to the process (or is kept with kept prompts); without it no client
 * can make two prompts with the same key. By chance two of 1e9 blocks have the same key
 * once in 1e20 servers. A key of 16 tokens takes 40 ns (bench/block_keys).
 *
 * SipHash: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012; the
 * 128-bit variant is from its authors' reference code.
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

/* Returns the key of the block that follows the block with key `before`. */
struct lls_key lls_key_next(const struct lls_key_secret *, const struct lls_key *before,
                            const int32_t *tokens, uint32_t n);

/* The keys of one request, extended as its blocks get full. */
struct lls_keys {
  struct lls_key_secret secret;
  struct lls_key root;      /* key[-1] */
  struct lls_key *all;      /* room for all its blocks; NULL: no keys */
  uint32_t block_tokens, n; /* n: keys so far */
};

/* Adds the keys of blocks that are full after `length` tokens. Called by the thread
 * that owns the request. */
void lls_keys_extend(struct lls_keys *, const int32_t *tokens, uint32_t length);

/* Reads the secret from FOLDER/prompts-secret, so that keys of kept prompts stay valid
 * after a restart; makes the file with a random secret if there is none. folder "" or
 * NULL: a random secret without a file. */
int lls_key_secret_find(const char *folder, struct lls_key_secret *,
                        struct lls_error *err);

#endif
