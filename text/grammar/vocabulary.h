/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tokeniser's vocabulary as grammars see it: the bytes of every token that may stand in
 * a text, in a trie, and the tokens that end one. Made once per tokeniser; compiled
 * grammars refer to it. It never changes but for what grammars share in it, under a lock;
 * any number of threads may use it at once.
 *
 * The trie is in preorder, so that a walk is a loop over an array, and a subtree that
 * nothing can match is left with one jump. Token ids stand in the same order.
 */
#ifndef LLS_GRAMMAR_VOCABULARY_H
#define LLS_GRAMMAR_VOCABULARY_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_tokenizer;

struct lls_trie_node {
  uint32_t end;         /* the first node behind its subtree */
  uint32_t first_token; /* its own: tokens [first_token, next node's first_token) */
  uint16_t depth;       /* bytes from the root to it */
  uint8_t byte;         /* the last of them */
};

/* The bytes of a token; none for one that may not be drawn. */
struct lls_token_bytes {
  const char *bytes;
  size_t n;
};

/*
 * A special token stands in no text, but where a grammar names it (grammar_marks.h). To
 * automata it is a code: a byte that no text has, and the token's number.
 */
#define LLS_SPECIAL_BYTE  0xFF
#define LLS_SPECIAL_BYTES 5

struct lls_special_token {
  uint32_t name, n; /* its bytes, in the vocabulary's names */
  uint32_t token;
};

struct lls_vocabulary {
  uint32_t size;               /* of the model: what a mask has bits for */
  struct lls_trie_node *nodes; /* (n_nodes + 1) [0] is the root; the last is a sentinel */
  uint32_t n_nodes;
  uint64_t *below;  /* (n_nodes) kinds of the bytes below each (byte_kinds.h) */
  uint8_t *whole;   /* (n_nodes) in which states of a character all below is UTF-8 */
  uint32_t *tokens; /* (n_tokens) ids in the order of the nodes */
  uint32_t n_tokens;
  uint32_t max_depth;
  int32_t *ends; /* (n_ends) tokens that end a text */
  uint32_t n_ends;
  char *text;        /* the bytes of all tokens */
  uint32_t *offsets; /* (size + 1) where those of a token begin in text */
  struct lls_special_token *specials; /* (n_specials) but those that end a text */
  uint32_t n_specials;
  char *names;
  struct lls_fragment_store *fragments; /* parts of masks that grammars share; grows */
};

/*
 * size: the model's logits; ids beyond the tokeniser's are never allowed. Special tokens
 * have codes, unused ids no bytes. -ENOMEM.
 */
int lls_vocabulary_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                          const int32_t *ends, uint32_t n_ends,
                          struct lls_vocabulary **out, struct lls_error *err);
/* The same from bytes: tokens (size). */
int lls_vocabulary_of(const struct lls_token_bytes *tokens, uint32_t size,
                      const int32_t *ends, uint32_t n_ends, struct lls_vocabulary **out,
                      struct lls_error *err);
/* After every grammar that was compiled for it. */
void lls_vocabulary_destroy(struct lls_vocabulary *vocabulary);

/* Writes the code of a special token. */
static inline void lls_special_code(uint32_t token, char code[LLS_SPECIAL_BYTES])
{
  code[0] = (char)LLS_SPECIAL_BYTE;
  for (int i = 1; i < LLS_SPECIAL_BYTES; i++)
    code[i] = (char)(token >> (8 * (LLS_SPECIAL_BYTES - 1 - i)));
}

/* The special token with the longest name that the bytes begin with; NULL: none. */
const struct lls_special_token *lls_vocabulary_special(const struct lls_vocabulary *v,
                                                       const char *bytes, size_t n);

static inline bool lls_vocabulary_ends(const struct lls_vocabulary *v, int32_t token)
{
  for (uint32_t i = 0; i < v->n_ends; i++)
    if (v->ends[i] == token)
      return true;
  return false;
}

/* Words of a mask: bit (token % 32) of word (token / 32). */
static inline size_t lls_vocabulary_words(const struct lls_vocabulary *v)
{
  return ((size_t)v->size + 31) / 32;
}

#endif
