/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a grammar's nodes that decide how they become NFA states (nfa.c). */
#ifndef LLS_GRAMMAR_NODE_SHAPE_H
#define LLS_GRAMMAR_NODE_SHAPE_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

struct lls_node_shape {
  uint32_t size;   /* approximate number of states it takes; bounded */
  uint32_t uses;   /* number of nodes that refer to it */
  bool nullable;   /* may be empty */
  bool productive; /* there is a text that it matches */
  bool wide;       /* it has a class of very many characters */
};

/* shapes: (nodes), zeroed. Returns 0 or -ENOMEM. */
int lls_node_shapes_find(const struct lls_grammar_tree *tree,
                         struct lls_node_shape *shapes);

/* Returns the node to use where a part of LLS_GRAMMAR_JOINED is present. *optional: the
 * part may be absent. */
uint32_t lls_node_part_of_joined(const struct lls_grammar_tree *tree, uint32_t part,
                                 bool *optional);

#endif
