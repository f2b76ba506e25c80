/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SentencePiece's Unigram (Kudo, arXiv 1804.10959): each piece has a log probability,
 * and a text is split so that their sum is largest. A character that is not a piece
 * itself may be an unknown token, with a score 10 below the lowest piece; adjacent
 * unknown characters become one token, or their bytes.
 */
#ifndef LLS_TOKENIZER_UNIGRAM_H
#define LLS_TOKENIZER_UNIGRAM_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_unigram;

/*
 * Reads the member "model" of tokenizer.json. Its "vocab" is a list of [piece, score],
 * which is also added to vocab; vocab must outlive the result. A token with score null
 * never occurs in a text.
 */
int lls_unigram_load(const json_t *node, struct lls_vocab *vocab,
                     struct lls_unigram **out, struct lls_error *err);
void lls_unigram_free(struct lls_unigram *unigram);

/* Working memory of encoding; zeroed before first use. */
struct lls_unigram_work {
  struct lls_cut *cuts;
  size_t capacity;
};

void lls_unigram_work_free(struct lls_unigram_work *work);

/* Appends the ids of one word (valid UTF-8, not empty). Returns 0 or -ENOMEM. */
int lls_unigram_encode(const struct lls_unigram *unigram, struct lls_unigram_work *work,
                       const char *word, size_t length, struct lls_ids *ids);

#endif
