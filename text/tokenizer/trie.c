/* SPDX-License-Identifier: Apache-2.0 */
/* See trie.h. */
#include "text/tokenizer/trie.h"

#include <errno.h>
#include <stdlib.h>

#define NONE  LLS_TRIE_NONE
#define ROOTS 256

static bool make_roots(struct lls_trie *trie)
{
  if (!lls_grow((void **)&trie->nodes, &trie->capacity, ROOTS, sizeof *trie->nodes))
    return false;
  for (int byte = 0; byte < ROOTS; byte++)
    trie->nodes[byte] = (struct lls_byte_node){NONE, NONE, NONE, (unsigned char)byte};
  trie->count = ROOTS;
  return true;
}

static int32_t add_child(struct lls_trie *trie, int32_t parent, unsigned char byte)
{
  if (!lls_grow((void **)&trie->nodes, &trie->capacity, trie->count + 1,
                sizeof *trie->nodes))
    return NONE;
  int32_t child = (int32_t)trie->count++;
  trie->nodes[child] =
      (struct lls_byte_node){NONE, trie->nodes[parent].child, NONE, byte};
  trie->nodes[parent].child = child;
  return child;
}

int lls_trie_insert(struct lls_trie *trie, const char *string, size_t length,
                    int32_t value)
{
  if (length == 0)
    return 0;
  if (trie->count == 0 && !make_roots(trie))
    return -ENOMEM;
  int32_t node = (unsigned char)string[0];
  for (size_t i = 1; i < length; i++) {
    int32_t child = lls_trie_next(trie, node, (unsigned char)string[i]);
    if (child == NONE)
      child = add_child(trie, node, (unsigned char)string[i]);
    if (child == NONE)
      return -ENOMEM;
    node = child;
  }
  trie->nodes[node].value = value;
  return 0;
}

void lls_trie_free(struct lls_trie *trie)
{
  free(trie->nodes);
}
