/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a grammar in two arrays: one of nodes, and one of their bytes, ranges
 * and parts. Nodes are never removed, so a tree is built and freed with a handful of
 * allocations.
 */
#include "text/grammar/grammar_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_CODE_POINT 0x10FFFFu
#define FIRST_SURROGATE 0xD800u
#define LAST_SURROGATE  0xDFFFu

struct node {
  enum lls_grammar_kind kind;
  uint32_t n, min, max;
  size_t content; /* offset of its bytes, ranges or parts in contents */
};

/* The 37 general categories of Unicode, including those of one letter. */
#define MOST_KNOWN 40

struct known_class {
  char name[LLS_GRAMMAR_CLASS_NAME];
  uint32_t node;
};

struct lls_grammar_tree {
  struct lls_grammar_bounds bounds;
  const struct lls_vocabulary *vocabulary;
  struct node *nodes; /* (n_nodes) */
  uint32_t n_nodes, node_capacity, n_rules;
  char *contents; /* (n_bytes) each content begins at a multiple of 4 */
  size_t n_bytes, byte_capacity;
  struct known_class known[MOST_KNOWN]; /* (n_known) */
  uint32_t n_known;
  unsigned schema_work;
  uint32_t root;
  int failed; /* negative errno, or 0 */
  struct lls_error error;
};

struct lls_grammar_tree *lls_grammar_tree_create(const struct lls_grammar_bounds *bounds)
{
  struct lls_grammar_tree *tree = calloc(1, sizeof *tree);
  if (tree == NULL)
    return NULL;
  tree->bounds = *bounds;
  tree->root = LLS_GRAMMAR_NONE;
  return tree;
}

void lls_grammar_tree_destroy(struct lls_grammar_tree *tree)
{
  if (tree == NULL)
    return;
  free(tree->nodes);
  free(tree->contents);
  free(tree);
}

void lls_grammar_tree_set_vocabulary(struct lls_grammar_tree *tree,
                                     const struct lls_vocabulary *vocabulary)
{
  tree->vocabulary = vocabulary;
}

const struct lls_vocabulary *
lls_grammar_tree_vocabulary(const struct lls_grammar_tree *tree)
{
  return tree->vocabulary;
}

unsigned *lls_grammar_tree_schema_work(struct lls_grammar_tree *tree)
{
  return &tree->schema_work;
}

/* ---- failure ---- */

static uint32_t fail_with(struct lls_grammar_tree *tree, int code, const char *sentence)
{
  if (tree->failed == 0)
    tree->failed = lls_fail(&tree->error, code, "%s", sentence);
  return LLS_GRAMMAR_NONE;
}

uint32_t lls_grammar_fail(struct lls_grammar_tree *tree, const char *format, ...)
{
  char sentence[LLS_ERROR_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return fail_with(tree, -EINVAL, sentence);
}

bool lls_grammar_has_failed(const struct lls_grammar_tree *tree)
{
  return tree->failed != 0;
}

int lls_grammar_tree_check(const struct lls_grammar_tree *tree, struct lls_error *err)
{
  if (tree->failed != 0)
    return lls_fail(err, tree->failed, "%s", tree->error.text);
  if (tree->root == LLS_GRAMMAR_NONE)
    return lls_fail(err, -EINVAL, "the grammar has no root");
  for (uint32_t i = 0; i < tree->n_nodes; i++)
    if (tree->nodes[i].kind == LLS_GRAMMAR_RULE && tree->nodes[i].n == 0)
      return lls_fail(err, -EINVAL, "the rule \"%s\" is used and not defined",
                      tree->contents + tree->nodes[i].content);
  return 0;
}

/* ---- nodes ---- */

/* Ensures room for `more` elements after the first n; the array grows by doubling. */
static bool make_room(void **array, size_t *capacity, size_t n, size_t more,
                      size_t element)
{
  size_t wanted = *capacity == 0 ? 64 : *capacity;
  while (wanted < n + more)
    wanted *= 2;
  if (wanted == *capacity)
    return true;
  void *grown = realloc(*array, wanted * element);
  if (grown == NULL)
    return false;
  *array = grown;
  *capacity = wanted;
  return true;
}

static bool make_room_for(struct lls_grammar_tree *tree, size_t bytes)
{
  size_t nodes = tree->node_capacity;
  void *array = tree->nodes, *contents = tree->contents;
  bool fits = make_room(&array, &nodes, tree->n_nodes, 1, sizeof *tree->nodes);
  tree->nodes = array;
  tree->node_capacity = (uint32_t)nodes;
  fits = fits && make_room(&contents, &tree->byte_capacity, tree->n_bytes, bytes, 1);
  tree->contents = contents;
  return fits;
}

/* Adds a node with `bytes` of content, copied from `content` unless that is NULL. */
static uint32_t add(struct lls_grammar_tree *tree, enum lls_grammar_kind kind, uint32_t n,
                    const void *content, size_t bytes)
{
  size_t padded = (bytes + 3) & ~(size_t)3;
  if (tree->failed != 0)
    return LLS_GRAMMAR_NONE;
  if (tree->n_nodes >= tree->bounds.nodes || bytes > tree->bounds.bytes ||
      tree->n_bytes + padded > tree->bounds.bytes)
    return fail_with(tree, -E2BIG, "the grammar is too large");
  if (!make_room_for(tree, padded))
    return fail_with(tree, -ENOMEM, "no memory for the grammar");
  if (bytes > 0)
    memcpy(tree->contents + tree->n_bytes, content, bytes);
  tree->nodes[tree->n_nodes] =
      (struct node){.kind = kind, .n = n, .content = tree->n_bytes};
  tree->n_bytes += padded;
  return tree->n_nodes++;
}

uint32_t lls_grammar_literal(struct lls_grammar_tree *tree, const char *bytes, size_t n)
{
  return add(tree, LLS_GRAMMAR_LITERAL, (uint32_t)n, bytes, n);
}

/* Returns true if all parts are nodes. A part that is not has already failed the tree. */
static bool are_nodes(const struct lls_grammar_tree *tree, const uint32_t *parts,
                      uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (parts[i] >= tree->n_nodes)
      return false;
  return true;
}

static uint32_t add_parts(struct lls_grammar_tree *tree, enum lls_grammar_kind kind,
                          const uint32_t *parts, uint32_t n)
{
  if (!are_nodes(tree, parts, n))
    return fail_with(tree, -EINVAL, "a part of the grammar is missing");
  return add(tree, kind, n, parts, n * sizeof *parts);
}

uint32_t lls_grammar_sequence(struct lls_grammar_tree *tree, const uint32_t *parts,
                              uint32_t n)
{
  return n == 1 ? parts[0] : add_parts(tree, LLS_GRAMMAR_SEQUENCE, parts, n);
}

uint32_t lls_grammar_choice(struct lls_grammar_tree *tree, const uint32_t *parts,
                            uint32_t n)
{
  return n == 1 ? parts[0] : add_parts(tree, LLS_GRAMMAR_CHOICE, parts, n);
}

uint32_t lls_grammar_repeat(struct lls_grammar_tree *tree, uint32_t part, uint32_t min,
                            uint32_t max)
{
  if (min > max)
    return lls_grammar_fail(tree, "a repetition of %u to %u times", min, max);
  uint32_t node = add_parts(tree, LLS_GRAMMAR_REPEAT, &part, 1);
  if (node != LLS_GRAMMAR_NONE) {
    tree->nodes[node].min = min;
    tree->nodes[node].max = max;
  }
  return node;
}

uint32_t lls_grammar_joined(struct lls_grammar_tree *tree, uint32_t separator,
                            const uint32_t *parts, uint32_t n)
{
  if (n == 0)
    return add_parts(tree, LLS_GRAMMAR_CHOICE, NULL, 0);
  uint32_t *all = malloc(((size_t)n + 1) * sizeof *all);
  if (all == NULL)
    return fail_with(tree, -ENOMEM, "no memory for the grammar");
  all[0] = separator;
  memcpy(all + 1, parts, n * sizeof *all);
  uint32_t node = add_parts(tree, LLS_GRAMMAR_JOINED, all, n + 1);
  free(all);
  return node;
}

uint32_t lls_grammar_rule(struct lls_grammar_tree *tree, const char *name)
{
  if (tree->n_rules >= tree->bounds.rules)
    return fail_with(tree, -E2BIG, "the grammar has too many rules");
  uint32_t node = add(tree, LLS_GRAMMAR_RULE, 0, name, strlen(name) + 1);
  tree->n_rules += node != LLS_GRAMMAR_NONE;
  return node;
}

void lls_grammar_define(struct lls_grammar_tree *tree, uint32_t rule, uint32_t body)
{
  if (tree->failed != 0)
    return;
  struct node *node = rule < tree->n_nodes ? &tree->nodes[rule] : NULL;
  if (node == NULL || node->kind != LLS_GRAMMAR_RULE || body >= tree->n_nodes)
    fail_with(tree, -EINVAL, "a part of the grammar is missing");
  else if (node->n != 0)
    lls_grammar_fail(tree, "the rule \"%s\" is defined twice",
                     tree->contents + node->content);
  else {
    node->n = 1;
    node->min = body; /* a rule has no other use for this field */
  }
}

void lls_grammar_set_root(struct lls_grammar_tree *tree, uint32_t node)
{
  if (node < tree->n_nodes)
    tree->root = node;
}

/* ---- classes of code points ---- */

static int compare_ranges(const void *a, const void *b)
{
  const struct lls_grammar_range *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

/* Appends [first, last], or extends the previous range; the ranges come in order. */
static uint32_t append_range(struct lls_grammar_range *ranges, uint32_t n, uint32_t first,
                             uint32_t last)
{
  if (n > 0 && first <= ranges[n - 1].last + 1) {
    if (last > ranges[n - 1].last)
      ranges[n - 1].last = last;
    return n;
  }
  ranges[n] = (struct lls_grammar_range){first, last};
  return n + 1;
}

/* Appends a range without the surrogates, which UTF-8 cannot encode. */
static uint32_t append_points(struct lls_grammar_range *ranges, uint32_t n,
                              struct lls_grammar_range r)
{
  if (r.last > LAST_CODE_POINT)
    r.last = LAST_CODE_POINT;
  if (r.first < FIRST_SURROGATE && r.first <= r.last)
    n = append_range(ranges, n, r.first,
                     r.last < FIRST_SURROGATE ? r.last : FIRST_SURROGATE - 1);
  if (r.last > LAST_SURROGATE && r.first <= r.last)
    n = append_range(ranges, n, r.first > LAST_SURROGATE ? r.first : LAST_SURROGATE + 1,
                     r.last);
  return n;
}

/* Computes the gaps between the n ranges of `in`; `out` has room for n + 2. */
static uint32_t between(const struct lls_grammar_range *in, uint32_t n,
                        struct lls_grammar_range *out)
{
  uint32_t m = 0, next = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (in[i].first > next)
      m = append_points(out, m, (struct lls_grammar_range){next, in[i].first - 1});
    next = in[i].last + 1;
  }
  if (next <= LAST_CODE_POINT)
    m = append_points(out, m, (struct lls_grammar_range){next, LAST_CODE_POINT});
  return m;
}

static uint32_t add_class(struct lls_grammar_tree *tree,
                          const struct lls_grammar_range *ranges, uint32_t n,
                          bool complement)
{
  if (tree->failed != 0)
    return LLS_GRAMMAR_NONE;
  if (n > tree->bounds.nodes)
    return fail_with(tree, -E2BIG, "the grammar is too large");
  /* the surrogates cut one range in two, and a complement has one range more */
  struct lls_grammar_range *sorted = calloc((size_t)n * 3 + 5, sizeof *sorted);
  if (sorted == NULL)
    return fail_with(tree, -ENOMEM, "no memory for the grammar");
  struct lls_grammar_range *merged = sorted + n, *outside = merged + n + 2;
  if (n > 0)
    memcpy(sorted, ranges, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, compare_ranges);
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    m = append_points(merged, m, sorted[i]);
  if (complement)
    m = between(merged, m, outside);
  uint32_t node =
      add(tree, LLS_GRAMMAR_CLASS, m, complement ? outside : merged, m * sizeof *merged);
  free(sorted);
  return node;
}

uint32_t lls_grammar_class(struct lls_grammar_tree *tree,
                           const struct lls_grammar_range *ranges, uint32_t n)
{
  return add_class(tree, ranges, n, false);
}

uint32_t lls_grammar_class_but(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n)
{
  return add_class(tree, ranges, n, true);
}

uint32_t lls_grammar_known_class(const struct lls_grammar_tree *tree, const char *name)
{
  for (uint32_t i = 0; i < tree->n_known; i++)
    if (strcmp(tree->known[i].name, name) == 0)
      return tree->known[i].node;
  return LLS_GRAMMAR_NONE;
}

void lls_grammar_keep_class(struct lls_grammar_tree *tree, const char *name,
                            uint32_t node)
{
  if (tree->n_known == MOST_KNOWN || strlen(name) >= LLS_GRAMMAR_CLASS_NAME)
    return;
  struct known_class *known = &tree->known[tree->n_known++];
  strcpy(known->name, name);
  known->node = node;
}

/* ---- reading ---- */

struct lls_grammar_node lls_grammar_node_at(const struct lls_grammar_tree *tree,
                                            uint32_t node)
{
  const struct node *from = &tree->nodes[node];
  const void *content = tree->contents + from->content;
  struct lls_grammar_node to = {.kind = from->kind, .n = from->n};
  switch (from->kind) {
  case LLS_GRAMMAR_RULE:
    to.parts = &from->min;
    to.bytes = content;
    break;
  case LLS_GRAMMAR_LITERAL:
    to.bytes = content;
    break;
  case LLS_GRAMMAR_CLASS:
    to.ranges = content;
    break;
  case LLS_GRAMMAR_REPEAT:
    to.min = from->min;
    to.max = from->max;
    to.parts = content;
    break;
  case LLS_GRAMMAR_SEQUENCE:
  case LLS_GRAMMAR_CHOICE:
  case LLS_GRAMMAR_JOINED:
    to.parts = content;
    break;
  }
  return to;
}

uint32_t lls_grammar_node_count(const struct lls_grammar_tree *tree)
{
  return tree->n_nodes;
}

uint32_t lls_grammar_root(const struct lls_grammar_tree *tree)
{
  return tree->root;
}
