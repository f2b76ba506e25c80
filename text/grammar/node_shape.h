/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the nodes of a grammar that decide which states are made of them. */
#ifndef LLS_GRAMMAR_NODE_SHAPE_H
#define LLS_GRAMMAR_NODE_SHAPE_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

struct lls_node_shape {
  uint32_t size;   /* states that it takes, about; bounded */
  uint32_t uses;   /* nodes that name it */
  bool nullable;   /* may be empty */
  bool productive; /* some text matches it */
  bool wide;       /* a character of it is one of very many */
};

/* shapes: (nodes), zero. 0, or -ENOMEM. */
int lls_node_shapes_find(const struct lls_grammar_tree *tree,
                         struct lls_node_shape *shapes);

/* The node that is there where a part of LLS_GRAMMAR_JOINED is, and whether it may be
 * left out. */
uint32_t lls_node_part_of_joined(const struct lls_grammar_tree *tree, uint32_t part,
                                 bool *optional);

#endif
