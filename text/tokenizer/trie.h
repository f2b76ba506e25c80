/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trie of byte strings, each with a value >= 0. Children form a list of siblings;
 * only the first byte, which is searched at every position of a text, is an array
 * index.
 */
#ifndef LLS_TOKENIZER_TRIE_H
#define LLS_TOKENIZER_TRIE_H

#include "text/base/buffer.h"

#define LLS_TRIE_NONE (-1)

struct lls_byte_node {
  int32_t child;   /* first child */
  int32_t sibling; /* next child of the same parent */
  int32_t value;   /* value of the string that ends here; NONE: no string does */
  unsigned char byte;
};

struct lls_trie {
  struct lls_byte_node *nodes; /* (count) the first 256 are those of the first bytes */
  size_t count;
  size_t capacity;
};

/* Inserts a string, or replaces its value. An empty string is ignored. Returns 0 or
 * -ENOMEM. */
int lls_trie_insert(struct lls_trie *trie, const char *string, size_t length,
                    int32_t value);
void lls_trie_free(struct lls_trie *trie);

/* Returns the node after one more byte, or NONE. */
static inline int32_t lls_trie_next(const struct lls_trie *trie, int32_t node,
                                    unsigned char byte)
{
  int32_t child = trie->nodes[node].child;
  while (child != LLS_TRIE_NONE && trie->nodes[child].byte != byte)
    child = trie->nodes[child].sibling;
  return child;
}

#endif
