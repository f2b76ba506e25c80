/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and texts form one chain of cells, freed with the tree; see tree.h. */
#include "text/template/tree.h"

#include <stdlib.h>
#include <string.h>

/* One allocation: a node, or a text. */
struct lls_tree_cell {
  struct lls_tree_cell *next;
  struct lls_node node;
  char text[];
};

static struct lls_tree_cell *add_cell(struct lls_tree *tree, size_t text_size)
{
  struct lls_tree_cell *cell = calloc(1, sizeof *cell + text_size);
  if (cell == NULL)
    return NULL;
  cell->next = tree->cells;
  tree->cells = cell;
  return cell;
}

struct lls_node *lls_tree_node(struct lls_tree *tree, enum lls_node_kind kind,
                               size_t offset)
{
  struct lls_tree_cell *cell = add_cell(tree, 0);
  if (cell == NULL)
    return NULL;
  cell->node.kind = kind;
  cell->node.offset = (uint32_t)offset;
  return &cell->node;
}

const char *lls_tree_text(struct lls_tree *tree, const char *text, size_t length)
{
  struct lls_tree_cell *cell = add_cell(tree, length + 1);
  if (cell == NULL)
    return NULL;
  if (length > 0)
    memcpy(cell->text, text, length);
  return cell->text;
}

void lls_tree_free(struct lls_tree *tree)
{
  while (tree->cells != NULL) {
    struct lls_tree_cell *cell = tree->cells;
    tree->cells = cell->next;
    free(cell);
  }
  free(tree->source);
}
