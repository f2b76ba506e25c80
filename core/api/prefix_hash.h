/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of a prompt's first bytes. A proxy in front of several replicas routes by
 * it, so that requests with a common prefix reach the replica that has the prefix in
 * its cache. It is computed from the request's text, not its tokens, so that a client
 * needs no tokeniser for it (etc/proxy/README computes it in one line of shell). The
 * hashed text is
 *
 *   prompt     the prompt's text; token ids as decimal numbers with commas;
 *              the first one of several prompts
 *   messages   for each message up to the first one of a user: its role, a line end,
 *              its text, a line end
 *
 * cut after LLS_PREFIX_BYTES. Its hash is the first 16 hex digits of its SHA-256.
 * Messages after the user's first are left out: every turn of a conversation has the
 * hash of its first turn.
 */
#ifndef LLS_API_PREFIX_HASH_H
#define LLS_API_PREFIX_HASH_H

#include <jansson.h>
#include <stddef.h>

#define LLS_PREFIX_HEADER "x-llmserve-prefix-hash"
#define LLS_PREFIX_BYTES  1024 /* about 256 tokens: 16 blocks of the paged cache */
#define LLS_PREFIX_HEX    17   /* hex digits and the final 0 */

/* A zeroed struct is an empty prefix. */
struct lls_prompt_prefix {
  char text[LLS_PREFIX_BYTES]; /* (length) */
  size_t length;
};

/* Appends as much of the text as fits. */
void lls_prefix_add(struct lls_prompt_prefix *, const char *text, size_t length);

/* Appends the "prompt" or "messages" of a request's body; other bodies add nothing. */
void lls_prefix_add_body(struct lls_prompt_prefix *, const json_t *body);

void lls_prefix_hash(const struct lls_prompt_prefix *, char hex[LLS_PREFIX_HEX]);

#endif
