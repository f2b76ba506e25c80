/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisers: text to text, before anything is cut. A Sequence is flattened at load, so
 * a normaliser is a list of steps; a null one is an empty list.
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
 * Normalises text (valid UTF-8) in place; spare is working memory. -EFBIG where the text
 * grows beyond what normalisers are for, or is copied too often: tokenizer.json is a
 * stranger's, and a chain of replacements can multiply a text with every step.
 */
int lls_normalize(const struct lls_normalizer *normalizer, struct lls_matcher *matcher,
                  struct lls_bytes *text, struct lls_bytes *spare);

#endif
