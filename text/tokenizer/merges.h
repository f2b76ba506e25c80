/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge table of a BPE: (left id, right id) -> (rank, merged id), open addressing, at
 * most half full. It is asked once for every adjacent pair, so an entry is 16 bytes and
 * four share a cache line.
 */
#ifndef LLS_TOKENIZER_MERGES_H
#define LLS_TOKENIZER_MERGES_H

#include "core/base/error.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_merge {
  int32_t left;
  int32_t right;
  int32_t merged; /* -1 in an empty slot */
  uint32_t rank;  /* lower is joined first */
};

struct lls_merges {
  struct lls_merge *slots; /* (mask + 1) */
  size_t mask;
};

/* Reads ["a b", ...] or [["a", "b"], ...]; the rank is the position in the list. */
int lls_merges_load(struct lls_merges *merges, const json_t *list,
                    const struct lls_vocab *vocab, struct lls_error *err);
/* As SentencePiece has it: any two tokens that make a token are a merge, and the higher
 * its score (a list by id) the sooner; equal ones are joined from the left. */
int lls_merges_load_scored(struct lls_merges *merges, const json_t *scores,
                           const struct lls_vocab *vocab, struct lls_error *err);
void lls_merges_free(struct lls_merges *merges);

/* Room for so many; then one more, in place of the pair's last one. */
int lls_merges_make(struct lls_merges *merges, size_t count);
void lls_merges_put(struct lls_merges *merges, struct lls_merge merge);

/* The merge of a pair, or NULL. */
const struct lls_merge *lls_merges_find(const struct lls_merges *merges, int32_t left,
                                        int32_t right);

#endif
