/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tokeniser's vocabulary for grammars: the bytes of every token that may occur in a
 * text, in a trie, and the tokens that end a text. It is made once per tokeniser;
 * compiled grammars refer to it. It is immutable, except for the fragments that
 * grammars share, which have a lock; any number of threads may use it at once.
 *
 * The trie is in preorder: a walk is a loop over an array, and a subtree without a
 * match is skipped by one jump. Token ids are stored in the same order.
 */
#ifndef LLS_GRAMMAR_VOCABULARY_H
#define LLS_GRAMMAR_VOCABULARY_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_tokenizer;

struct lls_trie_node {
  uint32_t end; /* the first node after its subtree */
  uint32_t
      first_token; /* the node's own tokens: [first_token, next node's first_token) */
  uint16_t depth;  /* bytes from the root to it */
  uint8_t byte;    /* last byte of the path from the root */
};

/* The bytes of a token; empty for a token that may not be sampled. */
struct lls_token_bytes {
  const char *bytes;
  size_t n;
};

/*
 * A special token occurs in a text only where the grammar names it (grammar_marks.h).
 * Automata see it as a code: a byte that no text contains, followed by the token's
 * number.
 */
#define LLS_SPECIAL_BYTE  0xFF
#define LLS_SPECIAL_BYTES 5

struct lls_special_token {
  uint32_t name, n; /* the token's bytes, in the vocabulary's names */
  uint32_t token;
};

struct lls_vocabulary {
  uint32_t size;               /* the model's: the number of bits of a mask */
  struct lls_trie_node *nodes; /* (n_nodes + 1) [0] is the root; the last is a sentinel */
  uint32_t n_nodes;
  uint64_t *below;  /* (n_nodes) kinds of the bytes below each node (byte_kinds.h) */
  uint8_t *whole;   /* (n_nodes) the UTF-8 states from which everything below the node
                     * is valid */
  uint32_t *tokens; /* (n_tokens) ids in the order of the nodes */
  uint32_t n_tokens;
  uint32_t max_depth;
  int32_t *ends; /* (n_ends) tokens that end a text */
  uint32_t n_ends;
  char *text;        /* the bytes of all tokens */
  uint32_t *offsets; /* (size + 1) where the bytes of a token begin in text */
  struct lls_special_token *specials; /* (n_specials) special tokens except those that
                                       * end a text */
  uint32_t n_specials;
  char *names;
  struct lls_fragment_store *fragments; /* parts of masks that grammars share; grows */
};

/*
 * size: number of the model's logits; ids beyond the tokeniser's are never allowed.
 * Special tokens get codes, unused ids no bytes. Returns 0 or -ENOMEM.
 */
int lls_vocabulary_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                          const int32_t *ends, uint32_t n_ends,
                          struct lls_vocabulary **out, struct lls_error *err);
/* Like lls_vocabulary_create, from the bytes of tokens (size). */
int lls_vocabulary_of(const struct lls_token_bytes *tokens, uint32_t size,
                      const int32_t *ends, uint32_t n_ends, struct lls_vocabulary **out,
                      struct lls_error *err);
/* Call it after every grammar compiled for the vocabulary was destroyed. */
void lls_vocabulary_destroy(struct lls_vocabulary *vocabulary);

/* Writes the code of a special token. */
static inline void lls_special_code(uint32_t token, char code[LLS_SPECIAL_BYTES])
{
  code[0] = (char)LLS_SPECIAL_BYTE;
  for (int i = 1; i < LLS_SPECIAL_BYTES; i++)
    code[i] = (char)(token >> (8 * (LLS_SPECIAL_BYTES - 1 - i)));
}

/* Returns the special token with the longest name that the bytes begin with, or NULL. */
const struct lls_special_token *lls_vocabulary_special(const struct lls_vocabulary *v,
                                                       const char *bytes, size_t n);

static inline bool lls_vocabulary_ends(const struct lls_vocabulary *v, int32_t token)
{
  for (uint32_t i = 0; i < v->n_ends; i++)
    if (v->ends[i] == token)
      return true;
  return false;
}

/* Returns the number of words in a mask; bit (token % 32) of word (token / 32) is a
 * token's. */
static inline size_t lls_vocabulary_words(const struct lls_vocabulary *v)
{
  return ((size_t)v->size + 31) / 32;
}

#endif
