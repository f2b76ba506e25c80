/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisers convert text to text, before the text is split. A Sequence is flattened
 * at load, so a normaliser is a list of steps; null is an empty list.
 */
#ifndef LLS_TOKENIZER_NORMALIZER_H
#define LLS_TOKENIZER_NORMALIZER_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/pattern.h"

#include <jansson.h>

struct lls_normalizer {
  struct normalize_step *steps; /* (count) */
  size_t count;
  size_t capacity;
};

/* node is the member "normalizer" of tokenizer.json; null is allowed. */
int lls_normalizer_load(struct lls_normalizer *normalizer, const json_t *node,
                        struct lls_error *err);
void lls_normalizer_free(struct lls_normalizer *normalizer);

/*
 * Normalises text (valid UTF-8) in place; spare is working memory. Returns 0; -EFBIG if
 * the text grows beyond LLS_STAGE_MOST_BYTES, or is copied too often: tokenizer.json is
 * untrusted, and each replacement of a chain can multiply the text; or another negative
 * errno.
 */
int lls_normalize(const struct lls_normalizer *normalizer, struct lls_matcher *matcher,
                  struct lls_bytes *text, struct lls_bytes *spare);

#endif
