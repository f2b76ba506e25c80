/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product's states are subsets of the expressions' states, together with the number
 * of code points read, counted while a length bound is ahead; see regex_product.h.
 * States that cannot reach a wanted text are dropped. Each other state becomes a rule
 * that ends in a call of the next one: a tail call, which needs no stack.
 */
#include "text/grammar/regex_product.h"

#include "text/grammar/json_escape.h"
#include "text/grammar/regex_states.h"
#include "core/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORK 4000000 /* ranges visited: some 20 ms */
#define OTHERS    63      /* bit number of the end of excluded texts */

struct subset {
  UT_hash_handle hh;
  uint32_t number;
  uint64_t ends; /* bits of the expressions that match a text ending here */
  uint32_t first_edge, n_edges;
  uint32_t rule;
  bool wanted, live;
  uint32_t n;     /* length of key */
  uint32_t key[]; /* (n) the count of code points, then sorted states */
};

struct edge {
  struct lls_grammar_range range;
  uint32_t to;
};

struct product {
  const struct lls_product *wanted;
  struct lls_grammar_tree *tree;
  struct lls_regex expressions[LLS_PRODUCT_TERMS];
  uint32_t n_expressions;
  struct lls_regex_states states;
  uint32_t *starts; /* (n_starts) */
  uint32_t n_starts;
  struct subset *by_key, **subsets; /* (n) of (LLS_PRODUCT_SETS) */
  uint32_t n;
  struct edge *edges; /* (n_edges) */
  uint32_t n_edges, edge_capacity;
  uint32_t *set, *bounds; /* (states.most + 1) (2 * ranges of a set) under construction */
  uint32_t n_set, n_bounds, bound_capacity;
  uint8_t *in_set; /* (states.most) */
  uint64_t work;
  int code;
};

static bool give_up(struct product *p, int code)
{
  if (p->code == 0)
    p->code = code;
  return false;
}

/* ---- sets ---- */

/* Adds a state and the states reached from it without a code point. */
static void add_state(struct product *p, uint32_t at)
{
  uint32_t *stack = p->set + p->n_set, n = 0;
  if (p->in_set[at])
    return;
  p->in_set[at] = 1;
  stack[n++] = at;
  /* pending states lie in the array after the finished ones: each state is in it once */
  while (n > 0) {
    uint32_t state = stack[0];
    p->n_set++;
    stack++;
    n--;
    const struct lls_regex_state *s = &p->states.list[state];
    if (s->kind != LLS_REGEX_STATE_SPLIT)
      continue;
    const uint32_t both[] = {s->out, s->other};
    for (int i = 0; i < 2; i++)
      if (!p->in_set[both[i]]) {
        p->in_set[both[i]] = 1;
        stack[n++] = both[i];
      }
  }
}

static int compare(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static uint64_t ends_of(const struct product *p)
{
  uint64_t ends = 0;
  for (uint32_t i = 0; i < p->n_set; i++) {
    const struct lls_regex_state *s = &p->states.list[p->set[i]];
    if (s->kind == LLS_REGEX_STATE_END)
      ends |= UINT64_C(1) << s->out;
  }
  return ends;
}

static bool is_meant(const struct product *p, uint64_t ends, uint32_t count)
{
  const struct lls_product *w = p->wanted;
  if (count < w->min || (ends >> OTHERS & 1) != 0)
    return false;
  for (uint32_t i = 0; i < w->n; i++)
    if ((ends >> i & 1) == w->terms[i].outside)
      return false;
  return true;
}

/* Removes split states from the set, since their successors are in it. */
static void drop_splits(struct product *p)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_set; i++) {
    p->in_set[p->set[i]] = 0;
    if (p->states.list[p->set[i]].kind != LLS_REGEX_STATE_SPLIT)
      p->set[n++] = p->set[i];
  }
  p->n_set = n;
  qsort(p->set, n, sizeof *p->set, compare);
}

/* Returns the number of the subset under construction and empties it; LLS_REGEX_END if
 * a limit is reached. */
static uint32_t number_of_set(struct product *p, uint32_t count)
{
  drop_splits(p);
  size_t bytes = (p->n_set + 1) * sizeof(uint32_t);
  struct subset *found, *made = malloc(sizeof *made + bytes);
  if (made == NULL) {
    give_up(p, -ENOMEM);
    return LLS_REGEX_END;
  }
  *made = (struct subset){.n = p->n_set + 1, .ends = ends_of(p), .number = p->n};
  made->key[0] = count;
  memcpy(made->key + 1, p->set, bytes - sizeof(uint32_t));
  made->wanted = is_meant(p, made->ends, count);
  p->n_set = 0;
  HASH_FIND(hh, p->by_key, made->key, bytes, found);
  if (found != NULL || p->n == p->wanted->most) {
    free(made);
    if (found == NULL)
      give_up(p, -ENOTSUP);
    return found != NULL ? found->number : LLS_REGEX_END;
  }
  HASH_ADD_KEYPTR(hh, p->by_key, made->key, bytes, made);
  if (made->hh.tbl == NULL) {
    free(made);
    give_up(p, -ENOMEM);
    return LLS_REGEX_END;
  }
  p->subsets[p->n] = made;
  return p->n++;
}

/* ---- steps ---- */

static const struct lls_grammar_range *ranges_of(const struct lls_regex_state *s)
{
  return s->ranges != NULL ? s->ranges : &s->one;
}

static bool add_bound(struct product *p, uint32_t point)
{
  if (p->n_bounds == p->bound_capacity) {
    uint32_t capacity = p->bound_capacity == 0 ? 256 : 2 * p->bound_capacity;
    uint32_t *grown = realloc(p->bounds, capacity * sizeof *grown);
    if (grown == NULL)
      return give_up(p, -ENOMEM);
    p->bounds = grown;
    p->bound_capacity = capacity;
  }
  p->bounds[p->n_bounds++] = point;
  return true;
}

/* Collects, in order, the code points at which the next set may change. */
static bool find_bounds(struct product *p, const struct subset *from)
{
  p->n_bounds = 0;
  if (!add_bound(p, 0) || !add_bound(p, 0xD800) || !add_bound(p, 0xE000) ||
      !add_bound(p, 0x110000))
    return false;
  for (uint32_t i = 1; i < from->n; i++) {
    const struct lls_regex_state *s = &p->states.list[from->key[i]];
    for (uint32_t k = 0; s->kind == LLS_REGEX_STATE_RANGES && k < s->n_ranges; k++)
      if (!add_bound(p, ranges_of(s)[k].first) || !add_bound(p, ranges_of(s)[k].last + 1))
        return false;
  }
  qsort(p->bounds, p->n_bounds, sizeof *p->bounds, compare);
  return true;
}

static bool add_edge(struct product *p, uint32_t from, struct edge edge)
{
  struct subset *s = p->subsets[from];
  struct edge *last = s->n_edges > 0 ? &p->edges[p->n_edges - 1] : NULL;
  if (last != NULL && last->to == edge.to && last->range.last + 1 == edge.range.first) {
    last->range.last = edge.range.last;
    return true;
  }
  if (p->n_edges == p->edge_capacity) {
    uint32_t capacity = p->edge_capacity == 0 ? 256 : 2 * p->edge_capacity;
    struct edge *grown = realloc(p->edges, capacity * sizeof *grown);
    if (grown == NULL)
      return give_up(p, -ENOMEM);
    p->edges = grown;
    p->edge_capacity = capacity;
  }
  p->edges[p->n_edges++] = edge;
  s->n_edges++;
  return true;
}

/* Builds the set reached by a code point. */
static bool step(struct product *p, const struct subset *from, uint32_t point)
{
  for (uint32_t i = 1; i < from->n; i++) {
    const struct lls_regex_state *s = &p->states.list[from->key[i]];
    if (s->kind != LLS_REGEX_STATE_RANGES)
      continue;
    p->work += s->n_ranges + 1;
    for (uint32_t k = 0; k < s->n_ranges; k++)
      if (point >= ranges_of(s)[k].first && point <= ranges_of(s)[k].last) {
        add_state(p, s->out);
        break;
      }
  }
  return p->work < MOST_WORK || give_up(p, -ENOTSUP);
}

/* Increments the count, up to the last value that a bound distinguishes. */
static uint32_t next_count(const struct product *p, uint32_t count)
{
  const struct lls_product *w = p->wanted;
  uint32_t last = w->max != LLS_GRAMMAR_UNBOUNDED ? w->max : w->min;
  return count < last ? count + 1 : count;
}

static bool leave(struct product *p, uint32_t number)
{
  const struct subset *from = p->subsets[number];
  uint32_t count = from->key[0];
  p->subsets[number]->first_edge = p->n_edges;
  /* a longer text would have more than `max` code points */
  if (count == p->wanted->max)
    return true;
  if (!find_bounds(p, from))
    return false;
  for (uint32_t i = 0; i + 1 < p->n_bounds; i++) {
    uint32_t first = p->bounds[i], next = p->bounds[i + 1];
    if (first == next || (first >= 0xD800 && first < 0xE000) || first >= 0x110000)
      continue;
    if (!step(p, from, first))
      return false;
    uint32_t to = number_of_set(p, next_count(p, count));
    if (to == LLS_REGEX_END || !add_edge(p, number, (struct edge){{first, next - 1}, to}))
      return false;
  }
  return true;
}

static bool explore(struct product *p)
{
  for (uint32_t i = 0; i < p->n_starts; i++)
    add_state(p, p->starts[i]);
  if (number_of_set(p, 0) == LLS_REGEX_END)
    return false;
  for (uint32_t i = 0; i < p->n; i++)
    if (!leave(p, i))
      return false;
  return true;
}

/* ---- rules ---- */

static void find_live(struct product *p)
{
  for (uint32_t i = 0; i < p->n; i++)
    p->subsets[i]->live = p->subsets[i]->wanted;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = p->n; i-- > 0;) {
      struct subset *s = p->subsets[i];
      bool was = s->live;
      for (uint32_t k = 0; !s->live && k < s->n_edges; k++)
        s->live = p->subsets[p->edges[s->first_edge + k].to]->live;
      changed |= s->live != was;
    }
  }
}

/* Returns true if a code point that may come next has to be escaped in JSON. */
static bool may_escape(const struct product *p, const struct subset *s)
{
  for (uint32_t k = 0; k < s->n_edges; k++) {
    const struct edge *edge = &p->edges[s->first_edge + k];
    if (p->subsets[edge->to]->live && lls_json_needs_escape(&edge->range, 1))
      return s->n_edges <= LLS_JSON_ESCAPED_RANGES;
  }
  return false;
}

/* The class of all code points that lead to subset `to`. */
static uint32_t class_to(struct product *p, const struct subset *s, uint32_t to)
{
  struct lls_grammar_range *ranges = malloc((s->n_edges + 1) * sizeof *ranges);
  uint32_t n = 0;
  if (ranges == NULL)
    return lls_grammar_fail(p->tree, "no memory for the grammar");
  for (uint32_t k = 0; k < s->n_edges; k++)
    if (p->edges[s->first_edge + k].to == to)
      ranges[n++] = p->edges[s->first_edge + k].range;
  uint32_t node = p->wanted->json
                      ? lls_json_class_beside(p->tree, ranges, n, may_escape(p, s))
                      : lls_grammar_class(p->tree, ranges, n);
  free(ranges);
  return node;
}

static bool leads_there_before(const struct product *p, const struct subset *s,
                               uint32_t edge)
{
  for (uint32_t k = 0; k < edge; k++)
    if (p->edges[s->first_edge + k].to == p->edges[s->first_edge + edge].to)
      return true;
  return false;
}

static void define(struct product *p, const struct subset *s, uint32_t *parts)
{
  uint32_t n = 0, itself = LLS_GRAMMAR_NONE;
  if (s->wanted)
    parts[n++] = lls_grammar_literal(p->tree, "", 0);
  for (uint32_t k = 0; k < s->n_edges; k++) {
    uint32_t to = p->edges[s->first_edge + k].to;
    if (!p->subsets[to]->live || leads_there_before(p, s, k))
      continue;
    uint32_t both[] = {class_to(p, s, to), p->subsets[to]->rule};
    if (to == s->number)
      itself = both[0];
    else
      parts[n++] = lls_grammar_sequence(p->tree, both, 2);
  }
  uint32_t body = lls_grammar_choice(p->tree, parts, n);
  if (itself != LLS_GRAMMAR_NONE) {
    uint32_t both[] = {lls_grammar_repeat(p->tree, itself, 0, LLS_GRAMMAR_UNBOUNDED),
                       body};
    body = lls_grammar_sequence(p->tree, both, 2);
  }
  lls_grammar_define(p->tree, s->rule, body);
}

static uint32_t make_rules(struct product *p)
{
  find_live(p);
  if (!p->subsets[0]->live)
    return p->wanted->nothing;
  uint32_t *parts = malloc((p->n_edges + 1) * sizeof *parts);
  if (parts == NULL)
    return lls_grammar_fail(p->tree, "no memory for the grammar");
  for (uint32_t i = 0; i < p->n; i++)
    if (p->subsets[i]->live)
      p->subsets[i]->rule = lls_grammar_rule(p->tree, "text");
  for (uint32_t i = 0; i < p->n; i++)
    if (p->subsets[i]->live)
      define(p, p->subsets[i], parts);
  free(parts);
  return p->subsets[0]->rule;
}

/* ---- the entry point ---- */

static bool add_start(struct product *p, uint32_t start)
{
  if (start == LLS_REGEX_END)
    return give_up(p, -ENOTSUP);
  p->starts[p->n_starts++] = start;
  return true;
}

static bool read_terms(struct product *p, struct lls_error *err)
{
  for (uint32_t i = 0; i < p->wanted->n; i++) {
    const struct lls_product_term *term = &p->wanted->terms[i];
    struct lls_regex *regex = &p->expressions[p->n_expressions++];
    uint32_t root =
        lls_regex_parse(regex, p->tree, term->pattern, strlen(term->pattern), err);
    if (root == LLS_REGEX_END || !lls_regex_resolve_anchors(regex, root, term->search))
      return give_up(p, -EINVAL);
    if (!add_start(p, lls_regex_states_add(&p->states, regex, root, i)))
      return false;
  }
  for (uint32_t i = 0; i < p->wanted->n_others; i++)
    if (!add_start(p, lls_regex_states_text(&p->states, p->wanted->others[i],
                                            strlen(p->wanted->others[i]), OTHERS)))
      return false;
  return true;
}

static bool allocate(struct product *p)
{
  p->states.most = LLS_PRODUCT_STATES;
  p->states.list = malloc(LLS_PRODUCT_STATES * sizeof *p->states.list);
  p->set = malloc(LLS_PRODUCT_STATES * sizeof *p->set);
  p->in_set = calloc(LLS_PRODUCT_STATES, 1);
  p->subsets = malloc(LLS_PRODUCT_SETS * sizeof(struct subset *));
  p->starts = malloc((p->wanted->n + p->wanted->n_others + 1) * sizeof *p->starts);
  return (p->states.list != NULL && p->set != NULL && p->in_set != NULL &&
          p->subsets != NULL && p->starts != NULL) ||
         give_up(p, -ENOMEM);
}

static void release(struct product *p)
{
  HASH_CLEAR(hh, p->by_key);
  for (uint32_t i = 0; i < p->n; i++)
    free(p->subsets[i]);
  for (uint32_t i = 0; i < p->n_expressions; i++)
    lls_regex_free(&p->expressions[i]);
  free(p->subsets);
  free(p->starts);
  free(p->states.list);
  free(p->set);
  free(p->in_set);
  free(p->bounds);
  free(p->edges);
}

uint32_t lls_grammar_product(struct lls_grammar_tree *tree, const struct lls_product *w,
                             uint64_t *work, int *code, struct lls_error *err)
{
  struct product p = {.wanted = w, .tree = tree};
  uint32_t node = LLS_GRAMMAR_NONE;
  *code = 0;
  if (w->min > w->max)
    return w->nothing;
  if (allocate(&p) && read_terms(&p, err) && explore(&p))
    node = make_rules(&p);
  if (p.code == -ENOTSUP)
    lls_fail(err, -ENOTSUP, "with expressions that have too many states together");
  else if (p.code == -ENOMEM)
    lls_grammar_fail(tree, "no memory for the grammar");
  *code = p.code != 0                ? p.code
          : node == LLS_GRAMMAR_NONE ? lls_grammar_tree_check(tree, err)
                                     : 0;
  *work += p.work;
  release(&p);
  return node;
}
