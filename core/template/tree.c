/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and names are cells of one chain, freed with the tree; see tree.h. */
#include "core/template/tree.h"

#include <stdlib.h>
#include <string.h>

/* One allocation: a node or a name. */
struct lls_tree_cell {
  struct lls_tree_cell *next;
  struct lls_node node;
  char name[];
};

static struct lls_tree_cell *add_cell(struct lls_tree *tree, size_t name_size)
{
  struct lls_tree_cell *cell = calloc(1, sizeof *cell + name_size);
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
  cell->node.offset = offset;
  return &cell->node;
}

const char *lls_tree_name(struct lls_tree *tree, const char *text, size_t length)
{
  struct lls_tree_cell *cell = add_cell(tree, length + 1);
  if (cell == NULL)
    return NULL;
  memcpy(cell->name, text, length);
  return cell->name;
}

void lls_tree_free(struct lls_tree *tree)
{
  while (tree->cells != NULL) {
    struct lls_tree_cell *cell = tree->cells;
    tree->cells = cell->next;
    json_decref(cell->node.value);
    free(cell);
  }
  free(tree->source);
}
