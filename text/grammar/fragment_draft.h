/* SPDX-License-Identifier: Apache-2.0 */
/* A fragment under construction, in memory of fixed size; and copying it out. */
#ifndef LLS_GRAMMAR_FRAGMENT_DRAFT_H
#define LLS_GRAMMAR_FRAGMENT_DRAFT_H

#include "text/grammar/fragment.h"

#define LLS_DRAFT_SUFFIXES (1u << 16)
#define LLS_DRAFT_ENDINGS  (1u << 17)
#define LLS_DRAFT_DEPTH    1025 /* depth of the vocabulary's trie, including the root */

/* Suffixes in the order of their discovery; the copy is in preorder. */
struct lls_draft_suffix {
  uint32_t child, sibling; /* nodes of the trie; 0: none. The root is 0 */
  uint32_t tokens;         /* index of its first token; 0: none */
  uint8_t byte;
};

struct lls_fragment_draft {
  const struct lls_vocabulary *vocabulary;
  struct {
    uint32_t token, times;
  } * tokens; /* (n_tokens) */
  uint32_t n_tokens;
  struct lls_draft_suffix *suffixes; /* (n_suffixes) */
  uint32_t n_suffixes;
  struct lls_suffix_token *endings; /* (n_endings) */
  uint32_t n_endings;
  uint32_t path[LLS_DRAFT_DEPTH];
  const struct lls_fragment *lender; /* fragment whose results are reused for subtrees;
                                      * or NULL */
  uint32_t *lent;                    /* (words) bits of the tokens of the reused
                                      * subtrees */
  uint32_t lent_to;                  /* lent_to: bits of the vocabulary's tokens before
                                      * this one are final */
  uint32_t *bits;                    /* (words) tokens besides the list, with a lender */
  uint64_t work;                     /* nodes and tokens visited since creation */
  bool counts;
  bool full; /* more suffixes than there is room for */
};

int lls_draft_create(struct lls_fragment_draft **out,
                     const struct lls_vocabulary *vocabulary);
void lls_draft_free(struct lls_fragment_draft *draft);
void lls_draft_begin(struct lls_fragment_draft *draft, bool counts);
/* Adds the tokens of the trie nodes [first, end): they stay in the rule, and need
 * `times` repetitions. */
void lls_draft_add(struct lls_fragment_draft *draft, uint32_t first, uint32_t end,
                   uint32_t times);
/* The rule ended n bytes before this node: the tokens of the node and of its subtree
 * continue after the rule with these n bytes, then with their own. */
void lls_draft_end(struct lls_fragment_draft *draft, const uint8_t *bytes, uint32_t n,
                   uint32_t node, uint32_t times);

/*
 * Reuses the lender's results (a fragment that counts) for subtrees. First the subtrees
 * are borrowed, in trie order; then the loan is closed; then the lender's suffixes that
 * can continue after the draft's rule are added, or become endings of the draft. Each
 * call applies to tokens of borrowed subtrees only.
 */
void lls_draft_borrow(struct lls_fragment_draft *draft, const struct lls_fragment *lender,
                      uint32_t node);
void lls_draft_close_loan(struct lls_fragment_draft *draft);
void lls_draft_add_lent(struct lls_fragment_draft *draft, uint32_t suffix);
/* Adds the lender's suffix below the draft's suffix `to`. */
void lls_draft_end_lent(struct lls_fragment_draft *draft, uint32_t suffix, uint32_t to);

/* Returns NULL if the memory is full. */
const struct lls_fragment *lls_draft_copy(const struct lls_fragment_draft *draft,
                                          struct lls_fragment_memory *memory);

int lls_fragment_memory_create(struct lls_fragment_memory *memory, size_t size);
void *lls_fragment_memory_take(struct lls_fragment_memory *memory, size_t bytes);

#endif
