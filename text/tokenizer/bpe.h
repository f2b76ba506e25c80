/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-pair encoding (Sennrich et al., 2016): a word is cut into characters; then the
 * adjacent pair whose merge was learnt first is joined, repeatedly, until no pair has a
 * merge.
 */
#ifndef LLS_TOKENIZER_BPE_H
#define LLS_TOKENIZER_BPE_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_bpe;

/* Working memory of one caller; empty if zeroed. */
struct lls_bpe_work {
  struct bpe_symbol *symbols; /* (symbol_capacity) */
  size_t symbol_capacity;
  struct bpe_candidate *heap; /* (heap_capacity) */
  size_t heap_capacity;
  size_t heap_count;
};

/* Reads the member "model" of tokenizer.json. vocab holds its "vocab" and must outlive
 * it. */
int lls_bpe_load(const json_t *node, const struct lls_vocab *vocab, struct lls_bpe **out,
                 struct lls_error *err);
void lls_bpe_free(struct lls_bpe *bpe);

/* Appends the ids of one word (valid UTF-8, not empty). Returns 0 or -ENOMEM. */
int lls_bpe_encode(const struct lls_bpe *bpe, struct lls_bpe_work *work, const char *word,
                   size_t length, struct lls_ids *ids);
void lls_bpe_work_free(struct lls_bpe_work *work);

#endif
