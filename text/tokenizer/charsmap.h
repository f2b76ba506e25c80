/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SentencePiece's normalisation as a table: a double-array trie (Aoe 1989, in the form of
 * darts-clone) of what is replaced, and the texts that replace it. As tokenizers reads
 * it: what a reader takes for a character is replaced as a whole where that is short and
 * the table has its beginning, else each of its code points.
 */
#ifndef LLS_TOKENIZER_CHARSMAP_H
#define LLS_TOKENIZER_CHARSMAP_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>

struct lls_charsmap;

/* node: the table in base64, as in tokenizer.json, or a list of its bytes, as in GGUF. */
int lls_charsmap_load(const json_t *node, struct lls_charsmap **out,
                      struct lls_error *err);
void lls_charsmap_free(struct lls_charsmap *map);

/* Appends what text (valid UTF-8) becomes. */
void lls_charsmap_apply(const struct lls_charsmap *map, const char *text, size_t length,
                        struct lls_bytes *out);

#endif
