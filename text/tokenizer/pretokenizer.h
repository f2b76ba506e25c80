/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pre-tokenisers split text into pieces, each of which the model tokenises separately.
 *
 * At load every kind is compiled to four primitive steps: *split* by a pattern,
 * *prefix* with a space, *metaspace* (spaces become a visible character) and *bytes*
 * (bytes become characters). ByteLevel, for example, is prefix, split, bytes. Digits,
 * Whitespace, Punctuation and BertPreTokenizer are splits by patterns of this project.
 */
#ifndef LLS_TOKENIZER_PRETOKENIZER_H
#define LLS_TOKENIZER_PRETOKENIZER_H

#include "core/base/error.h"
#include "text/tokenizer/pattern.h"
#include "text/base/buffer.h"

#include <jansson.h>

struct lls_pretokenizer {
  struct pretokenize_step *steps; /* (count) */
  size_t count;
  size_t capacity;
};

/* node is the member "pre_tokenizer" of tokenizer.json; null is allowed. */
int lls_pretokenizer_load(struct lls_pretokenizer *pretokenizer, const json_t *node,
                          struct lls_error *err);
void lls_pretokenizer_free(struct lls_pretokenizer *pretokenizer);

/* Splits pieces further, in place; spare is working memory. */
int lls_pretokenize(const struct lls_pretokenizer *pretokenizer,
                    struct lls_matcher *matcher, struct lls_pieces *pieces,
                    struct lls_pieces *spare);

#endif
