/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings by their bytes, each with a value that is not negative. Children are a list of
 * siblings; only the first bytes, which are asked at every place of a text, have an
 * array.
 */
#ifndef LLS_TOKENIZER_TRIE_H
#define LLS_TOKENIZER_TRIE_H

#include "text/base/buffer.h"

#define LLS_TRIE_NONE (-1)

struct lls_byte_node {
  int32_t child;   /* first one */
  int32_t sibling; /* next child of the same parent */
  int32_t value;   /* or NONE: no string ends here */
  unsigned char byte;
};

struct lls_trie {
  struct lls_byte_node
      *nodes; /* (count) the first 256 are those of first bytes; or none */
  size_t count;
  size_t capacity;
};

/* 0 or -ENOMEM. A string that is there gets the new value; an empty one is none. */
int lls_trie_insert(struct lls_trie *trie, const char *string, size_t length,
                    int32_t value);
void lls_trie_free(struct lls_trie *trie);

/* The node of the string so far and one byte more, or NONE. */
static inline int32_t lls_trie_next(const struct lls_trie *trie, int32_t node,
                                    unsigned char byte)
{
  int32_t child = trie->nodes[node].child;
  while (child != LLS_TRIE_NONE && trie->nodes[child].byte != byte)
    child = trie->nodes[child].sibling;
  return child;
}

#endif
