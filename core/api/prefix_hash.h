/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of a prompt's first bytes: what a proxy before several replicas sends requests
 * by, so that those which begin alike find each other's keys and values in a cache. It is
 * of the request's own text, not of its tokens, so that whoever sends a request can
 * compute it without a tokeniser (etc/proxy/README has it in a line of shell):
 *
 *   prompt     its text; ids are decimal numbers with commas; of several prompts the
 * first messages   for each up to the first one of a user: role, line end, its text, line
 * end
 *
 * cut after LLS_PREFIX_BYTES, is hashed by SHA-256, of which 16 digits are kept. Messages
 * after the user's first are left out: each turn of a conversation has its first one's
 * hash.
 */
#ifndef LLS_API_PREFIX_HASH_H
#define LLS_API_PREFIX_HASH_H

#include <jansson.h>
#include <stddef.h>

#define LLS_PREFIX_HEADER "x-llmserve-prefix-hash"
#define LLS_PREFIX_BYTES  1024 /* about 256 tokens: 16 blocks of the paged cache */
#define LLS_PREFIX_HEX    17   /* digits and the end */

/* A zeroed struct has none yet. */
struct lls_prefix {
  char text[LLS_PREFIX_BYTES]; /* (length) */
  size_t length;
};

/* Appends what of the text has room. */
void lls_prefix_add(struct lls_prefix *, const char *text, size_t length);

/* Appends the prompt or messages of a request's body; what is neither adds nothing. */
void lls_prefix_add_body(struct lls_prefix *, const json_t *body);

void lls_prefix_hash(const struct lls_prefix *, char hex[LLS_PREFIX_HEX]);

#endif
