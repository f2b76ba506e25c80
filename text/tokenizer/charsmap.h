/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SentencePiece's normalisation as a table: a double-array trie (Aoe 1989, in the form
 * of darts-clone) of the strings to replace, and their replacements. It is applied like
 * in tokenizers: a grapheme cluster is replaced as a whole if it is short and the trie
 * has a string that it begins with; else each of its code points is replaced
 * separately.
 */
#ifndef LLS_TOKENIZER_CHARSMAP_H
#define LLS_TOKENIZER_CHARSMAP_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>

struct lls_charsmap;

/* node: the table in base64, as in tokenizer.json, or an array of its bytes, as in
 * GGUF. */
int lls_charsmap_load(const json_t *node, struct lls_charsmap **out,
                      struct lls_error *err);
void lls_charsmap_free(struct lls_charsmap *map);

/* Appends the normalised form of text (valid UTF-8). */
void lls_charsmap_apply(const struct lls_charsmap *map, const char *text, size_t length,
                        struct lls_bytes *out);

#endif
