/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SentencePiece's Unigram (Kudo, arXiv 1804.10959): each piece has the logarithm of a
 * probability, and a text is cut so that their sum is largest. Where no piece is one
 * character long that character may be an unknown one, for 10 less than the least piece;
 * unknown ones beside each other are one token, or its bytes.
 */
#ifndef LLS_TOKENIZER_UNIGRAM_H
#define LLS_TOKENIZER_UNIGRAM_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_unigram;

/*
 * Reads the member "model" of tokenizer.json: its "vocab" is a list of [piece, score],
 * which it also puts into vocab, and which outlives it. A score of null is of a token
 * that is never found in a text.
 */
int lls_unigram_load(const json_t *node, struct lls_vocab *vocab,
                     struct lls_unigram **out, struct lls_error *err);
void lls_unigram_free(struct lls_unigram *unigram);

/* Memory of one call of encoding; zeroed at first. */
struct lls_unigram_work {
  struct lls_cut *cuts;
  size_t capacity;
};

void lls_unigram_work_free(struct lls_unigram_work *work);

/* Appends the ids of one word (valid UTF-8, not empty); 0 or -ENOMEM. */
int lls_unigram_encode(const struct lls_unigram *unigram, struct lls_unigram_work *work,
                       const char *word, size_t length, struct lls_ids *ids);

#endif
