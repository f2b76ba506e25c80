/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge table of a BPE: (left id, right id) -> (rank, merged id), with open
 * addressing, at most half full. It is searched once for every adjacent pair, so an
 * entry has 16 bytes, four per cache line.
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
  uint32_t rank;  /* the lowest rank is joined first */
};

struct lls_merges {
  struct lls_merge *slots; /* (mask + 1) */
  size_t mask;
};

/* Reads ["a b", ...] or [["a", "b"], ...]; the rank is the position in the list. */
int lls_merges_load(struct lls_merges *merges, const json_t *list,
                    const struct lls_vocab *vocab, struct lls_error *err);
/* Builds SentencePiece's merges: any two tokens whose concatenation is a token are a
 * merge. The token with the higher score (scores: a list by id) is joined first; equal
 * scores from the left. */
int lls_merges_load_scored(struct lls_merges *merges, const json_t *scores,
                           const struct lls_vocab *vocab, struct lls_error *err);
void lls_merges_free(struct lls_merges *merges);

/* Allocates room for `count` merges; adds one merge, replacing an earlier one of the
 * same pair. */
int lls_merges_make(struct lls_merges *merges, size_t count);
void lls_merges_put(struct lls_merges *merges, struct lls_merge merge);

/* Returns the merge of a pair, or NULL. */
const struct lls_merge *lls_merges_find(const struct lls_merges *merges, int32_t left,
                                        int32_t right);

#endif
