/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes name only nodes before them, but for rules: one pass in their order finds all
 * that does not go through rules, and passes are repeated until rules change nothing.
 */
#include "core/grammar/node_shape.h"

#include <errno.h>

#define LARGEST     (1u << 20)
#define WIDE        16 /* code points */
#define PER_RANGE   4  /* states of a range of code points, at most about */
#define SIZE_PASSES 4  /* sizes of recursive rules would grow for ever */
#define MOST_PASSES 1000

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
    s.wide |= part->wide && !all; /* a string's characters, or escapes for them */
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

static void count_uses(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes)
{
  uint32_t n_nodes = lls_grammar_node_count(tree);
  for (uint32_t i = 0; i < n_nodes; i++) {
    struct lls_grammar_node n = lls_grammar_node_at(tree, i);
    uint32_t parts = n.kind == LLS_GRAMMAR_LITERAL || n.kind == LLS_GRAMMAR_CLASS ? 0
                     : n.kind == LLS_GRAMMAR_REPEAT                               ? 1
                                                                                  : n.n;
    for (uint32_t p = 0; p < parts; p++)
      shapes[n.parts[p]].uses++;
  }
  shapes[lls_grammar_root(tree)].uses++;
}

/* False where nothing changed. */
static bool find_again(const struct lls_grammar_tree *tree, struct lls_node_shape *shapes,
                       uint32_t pass)
{
  uint32_t n_nodes = lls_grammar_node_count(tree);
  bool changed = false;
  for (uint32_t i = 0; i < n_nodes; i++) { /* every second time from the back */
    uint32_t at = pass % 2 == 0 ? i : n_nodes - 1 - i;
    struct lls_grammar_node n = lls_grammar_node_at(tree, at);
    struct lls_node_shape s = shape_of(tree, &n, shapes), *known = &shapes[at];
    s.size = pass < SIZE_PASSES ? s.size : known->size;
    changed |= s.nullable != known->nullable || s.productive != known->productive ||
               s.wide != known->wide || s.size != known->size;
    *known = s;
  }
  return changed;
}

int lls_node_shapes_find(const struct lls_grammar_tree *tree,
                         struct lls_node_shape *shapes)
{
  uint32_t pass = 0;
  while (find_again(tree, shapes, pass) || pass < 2)
    if (++pass == MOST_PASSES)
      return -E2BIG;
  count_uses(tree, shapes);
  return 0;
}
