/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes refer only to nodes before them, except rules: one pass in their order finds
 * all properties that do not depend on rules. After several passes only users of a node
 * that changed are visited again, since rules may form a chain of thousands
 * (regex_product.c).
 */
#include "text/grammar/node_shape.h"

#include <errno.h>
#include <stdlib.h>

#define LARGEST   (1u << 20)
#define WIDE      16 /* code points */
#define PER_RANGE 4  /* approximate number of states for a range of code points */
#define PASSES    4

uint32_t lls_node_part_of_joined(const struct lls_grammar_tree *tree, uint32_t part,
                                 bool *optional)
{
  struct lls_grammar_node n = lls_grammar_node_at(tree, part);
  *optional = n.kind == LLS_GRAMMAR_REPEAT && n.min == 0 && n.max == 1;
  return *optional ? n.parts[0] : part;
}

static uint32_t bounded(uint64_t size)
{
  return size < LARGEST ? (uint32_t)size : LARGEST;
}

static struct lls_node_shape shape_of_class(const struct lls_grammar_node *n)
{
  uint64_t points = 0, size = 0;
  for (uint32_t i = 0; i < n->n; i++) {
    points += n->ranges[i].last - n->ranges[i].first + 1;
    size += n->ranges[i].last < 0x80 ? 1 : PER_RANGE;
  }
  return (struct lls_node_shape){
      .size = bounded(size), .productive = n->n > 0, .wide = points > WIDE};
}

static struct lls_node_shape shape_of_parts(const struct lls_grammar_node *n,
                                            const struct lls_node_shape *shapes)
{
  bool all = n->kind == LLS_GRAMMAR_SEQUENCE;
  struct lls_node_shape s = {.nullable = all, .productive = all};
  uint64_t size = 0;
  for (uint32_t i = 0; i < n->n; i++) {
    const struct lls_node_shape *part = &shapes[n->parts[i]];
    size += part->size + (all ? 0 : 1);
    s.nullable = all ? s.nullable && part->nullable : s.nullable || part->nullable;
    s.productive =
        all ? s.productive && part->productive : s.productive || part->productive;
    s.wide |= part->wide && !all; /* a string's characters, or their escapes */
  }
  s.size = bounded(size);
  return s;
}

static struct lls_node_shape shape_of_repeat(const struct lls_grammar_node *n,
                                             const struct lls_node_shape *shapes)
{
  const struct lls_node_shape *part = &shapes[n->parts[0]];
  uint64_t copies = n->max == LLS_GRAMMAR_UNBOUNDED ? (uint64_t)n->min + 1 : n->max;
  return (struct lls_node_shape){.size = bounded(copies * part->size + 1),
                                 .nullable = n->min == 0 || part->nullable,
                                 .productive = n->min == 0 || part->productive};
}

static struct lls_node_shape shape_of_joined(const struct lls_grammar_tree *tree,
                                             const struct lls_grammar_node *n,
                                             const struct lls_node_shape *shapes)
{
  const struct lls_node_shape *separator = &shapes[n->parts[0]];
  struct lls_node_shape must = {.nullable = true, .productive = true}, may = {0};
  uint32_t n_required = 0;
  uint64_t size = 0;
  for (uint32_t i = 1; i < n->n; i++) {
    bool optional;
    const struct lls_node_shape *part =
        &shapes[lls_node_part_of_joined(tree, n->parts[i], &optional)];
    size += part->size + separator->size + 2;
    n_required += !optional;
    must.nullable &= optional || part->nullable;
    must.productive &= optional || part->productive;
    may.nullable |= part->nullable;
    may.productive |= part->productive;
  }
  struct lls_node_shape *s = n_required > 0 ? &must : &may;
  s->size = bounded(size);
  s->nullable = s->nullable && (n_required < 2 || separator->nullable);
  s->productive = s->productive && (n_required < 2 || separator->productive);
  return *s;
}

static struct lls_node_shape shape_of(const struct lls_grammar_tree *tree,
                                      const struct lls_grammar_node *n,
                                      const struct lls_node_shape *shapes)
{
  switch (n->kind) {
  case LLS_GRAMMAR_LITERAL:
    return (struct lls_node_shape){
        .size = bounded(n->n), .nullable = n->n == 0, .productive = true};
  case LLS_GRAMMAR_CLASS:
    return shape_of_class(n);
  case LLS_GRAMMAR_REPEAT:
    return shape_of_repeat(n, shapes);
  case LLS_GRAMMAR_RULE:
    return shapes[n->parts[0]];
  case LLS_GRAMMAR_JOINED:
    return shape_of_joined(tree, n, shapes);
  case LLS_GRAMMAR_SEQUENCE:
  case LLS_GRAMMAR_CHOICE:
    return shape_of_parts(n, shapes);
  }
  return (struct lls_node_shape){0};
}

static uint32_t parts_of(const struct lls_grammar_node *n)
{
  return n->kind == LLS_GRAMMAR_LITERAL || n->kind == LLS_GRAMMAR_CLASS ? 0
         : n->kind == LLS_GRAMMAR_REPEAT                                ? 1
                                                                        : n->n;
}

static void count_uses(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes)
{
  uint32_t n_nodes = lls_grammar_node_count(tree);
  for (uint32_t i = 0; i < n_nodes; i++) {
    struct lls_grammar_node n = lls_grammar_node_at(tree, i);
    for (uint32_t p = 0; p < parts_of(&n); p++)
      shapes[n.parts[p]].uses++;
  }
  shapes[lls_grammar_root(tree)].uses++;
}

/* ---- the users of nodes ---- */

struct users {
  uint32_t *first; /* (nodes + 1) where the users of a node begin in list */
  uint32_t *list;
};

/* Returns the node whose shape counts for part p: for a joined node's optional part,
 * the node inside the repetition. */
static uint32_t looked_at(const struct lls_grammar_tree *tree,
                          const struct lls_grammar_node *n, uint32_t p)
{
  bool optional;
  return n->kind == LLS_GRAMMAR_JOINED
             ? lls_node_part_of_joined(tree, n->parts[p], &optional)
             : n->parts[p];
}

/* A counting sort: `first` holds the ends of the places, and becomes their beginnings
 * when they are filled. */
static bool find_users(const struct lls_grammar_tree *tree, struct users *users)
{
  uint32_t n_nodes = lls_grammar_node_count(tree), total = 0;
  users->first = calloc((size_t)n_nodes + 1, sizeof *users->first);
  if (users->first == NULL)
    return false;
  for (uint32_t i = 0; i < n_nodes; i++) {
    struct lls_grammar_node n = lls_grammar_node_at(tree, i);
    for (uint32_t p = 0; p < parts_of(&n); p++)
      users->first[looked_at(tree, &n, p)]++;
  }
  for (uint32_t i = 0; i <= n_nodes; i++)
    users->first[i] = total += users->first[i];
  users->list = malloc(((size_t)total + 1) * sizeof *users->list);
  for (uint32_t i = 0; i < n_nodes && users->list != NULL; i++) {
    struct lls_grammar_node n = lls_grammar_node_at(tree, i);
    for (uint32_t p = 0; p < parts_of(&n); p++)
      users->list[--users->first[looked_at(tree, &n, p)]] = i;
  }
  return users->list != NULL;
}

/* ---- sizes ---- */

/* Computes sizes from the parts up, also through rules: a chain of rules whose sizes
 * are underestimated would be written out repeatedly. A recursive rule counts 0 inside
 * itself. stack, cursor, seen: (nodes), the latter two zeroed. */
static void find_sizes(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                       uint32_t *stack, uint32_t *cursor, bool *seen)
{
  uint32_t n_nodes = lls_grammar_node_count(tree), depth = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    if (!seen[i])
      stack[depth++] = i;
    seen[i] = true;
    while (depth > 0) {
      uint32_t at = stack[depth - 1];
      struct lls_grammar_node n = lls_grammar_node_at(tree, at);
      if (cursor[at] == parts_of(&n)) {
        shapes[at].size = shape_of(tree, &n, shapes).size;
        depth--;
        continue;
      }
      uint32_t part = looked_at(tree, &n, cursor[at]++);
      if (!seen[part])
        stack[depth++] = part;
      seen[part] = true;
    }
  }
}

/* ---- the other properties ---- */

/* Recomputes a node's shape. Returns false if nothing changed. */
static bool update(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                   uint32_t at)
{
  struct lls_grammar_node n = lls_grammar_node_at(tree, at);
  struct lls_node_shape s = shape_of(tree, &n, shapes), *known = &shapes[at];
  bool changed = s.nullable != known->nullable || s.productive != known->productive ||
                 s.wide != known->wide;
  s.size = known->size;
  *known = s;
  return changed;
}

static bool find_again(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                       uint32_t pass)
{
  uint32_t n_nodes = lls_grammar_node_count(tree);
  bool changed = false;
  for (uint32_t i = 0; i < n_nodes; i++) /* every second pass goes backwards */
    changed |= update(tree, shapes, pass % 2 == 0 ? i : n_nodes - 1 - i);
  return changed;
}

/* Visits changed nodes' users until nothing changes. Properties only become true, so
 * this ends. */
static void settle(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                   const struct users *users, uint32_t *queue, bool *waits)
{
  uint32_t n_nodes = lls_grammar_node_count(tree), n = 0;
  for (uint32_t i = n_nodes; i-- > 0;) {
    queue[n++] = i;
    waits[i] = true;
  }
  while (n > 0) {
    uint32_t at = queue[--n];
    waits[at] = false;
    if (!update(tree, shapes, at))
      continue;
    for (uint32_t u = users->first[at]; u < users->first[at + 1]; u++)
      if (!waits[users->list[u]]) {
        waits[users->list[u]] = true;
        queue[n++] = users->list[u];
      }
  }
}

/* ---- the entry point ---- */

static bool find_all(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                     struct users *users, uint32_t *queue, uint32_t *cursor, bool *seen)
{
  bool changed = true;
  find_sizes(tree, shapes, queue, cursor, seen);
  for (uint32_t pass = 0; changed && pass < PASSES; pass++)
    changed = find_again(tree, shapes, pass);
  if (changed && !find_users(tree, users))
    return false;
  if (changed)
    settle(tree, shapes, users, queue, seen);
  count_uses(tree, shapes);
  return true;
}

int lls_node_shapes_find(const struct lls_grammar_tree *tree,
                         struct lls_node_shape *shapes)
{
  struct users users = {0};
  size_t n_nodes = lls_grammar_node_count(tree);
  uint32_t *queue = malloc((n_nodes + 1) * sizeof *queue);
  uint32_t *cursor = calloc(n_nodes + 1, sizeof *cursor);
  bool *seen = calloc(n_nodes + 1, sizeof *seen);
  bool found = queue != NULL && cursor != NULL && seen != NULL &&
               find_all(tree, shapes, &users, queue, cursor, seen);
  free(queue);
  free(cursor);
  free(seen);
  free(users.first);
  free(users.list);
  return found ? 0 : -ENOMEM;
}
