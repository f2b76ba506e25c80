/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WordPiece (Schuster and Nakajima, 2012), as in BERT: the longest piece of the
 * vocabulary is repeatedly taken from the front of a word; pieces inside a word have a
 * prefix ("##"). A word that cannot be split completely becomes one unknown token.
 */
#ifndef LLS_TOKENIZER_WORDPIECE_H
#define LLS_TOKENIZER_WORDPIECE_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_wordpiece;

/* Reads the member "model" of tokenizer.json. vocab holds its "vocab" and must outlive
 * it. */
int lls_wordpiece_load(const json_t *node, const struct lls_vocab *vocab,
                       struct lls_wordpiece **out, struct lls_error *err);
void lls_wordpiece_free(struct lls_wordpiece *wordpiece);

/* Appends the ids of one word (valid UTF-8, not empty). Returns 0 or -ENOMEM. */
int lls_wordpiece_encode(const struct lls_wordpiece *wordpiece, const char *word,
                         size_t length, struct lls_ids *ids);

#endif
