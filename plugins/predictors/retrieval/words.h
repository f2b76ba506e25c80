/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoder that needs no model: words and pairs of words, hashed into a vector of
 * counts of unit length. Also what token ids are compared by, where there is no text.
 */
#ifndef LLS_RETRIEVAL_WORDS_H
#define LLS_RETRIEVAL_WORDS_H

#include <stddef.h>
#include <stdint.h>

void words_of_text(const char *text, size_t bytes, float *vector, uint32_t dims);
void words_of_tokens(const int32_t *tokens, size_t n, float *vector, uint32_t dims);

/* FNV-1a, the hash by which a prompt is recognised. */
uint64_t words_hash(const void *data, size_t bytes, uint64_t seed);

#endif
