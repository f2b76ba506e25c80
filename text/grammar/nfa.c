/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a tree to rules of nondeterministic automata; see nfa.h. States are made
 * from back to front: the state that follows is known when a state is made, so only
 * loops need patching.
 */
#include "text/grammar/nfa.h"

#include "text/grammar/node_shape.h"
#include "text/grammar/utf8_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NONE        UINT32_MAX
#define CALLED_FROM 16 /* states: smaller nodes are written out at each use */
/* states: in a counted repetition smaller nodes are written out (fragment.h) */
#define CALLED_FROM_COUNTED 512
/* Repetitions of a class of many characters from which on they are counted, too. */
#define WIDE_FROM      8
#define WRITTEN_OUT    64  /* states: a repetition that would take more is counted */
#define DEEPEST_INLINE 200 /* deeper nodes become rules, to bound the recursion */

struct builder {
  const struct lls_grammar_tree *tree;
  const struct lls_grammar_limits *limits;
  struct lls_nfa *nfa;
  struct lls_node_shape *shapes; /* (nodes) */
  uint32_t *rule_of;             /* (nodes) the rule of a called node, or NONE */
  bool *open;                    /* (nodes) the rule is being written out */
  uint32_t *todo;                /* (nodes) for each rule, the node of its body */
  int64_t started_ns;
  uint32_t depth;
  uint32_t called_from; /* states from which on a node used more than once is called */
  int failed;
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fail(struct builder *b, int code)
{
  if (b->failed == 0)
    b->failed = code;
}

static void check_limits(struct builder *b)
{
  const struct lls_grammar_limits *l = b->limits;
  if (b->nfa->n_states % 1024 != 0)
    return;
  if (l->cancelled != NULL && atomic_load(l->cancelled))
    fail(b, -ECANCELED);
  if (now_ns() - b->started_ns > l->time_ns)
    fail(b, -ETIME);
}

static uint32_t add_state(struct builder *b, struct lls_nfa_state state)
{
  struct lls_nfa *nfa = b->nfa;
  check_limits(b);
  if (nfa->n_states >= b->limits->positions)
    fail(b, -E2BIG);
  if (b->failed == 0 && nfa->n_states == nfa->state_capacity) {
    uint32_t capacity = nfa->state_capacity == 0 ? 256 : 2 * nfa->state_capacity;
    struct lls_nfa_state *grown = realloc(nfa->states, capacity * sizeof *grown);
    if (grown == NULL)
      fail(b, -ENOMEM);
    else {
      nfa->states = grown;
      nfa->state_capacity = capacity;
    }
  }
  if (b->failed != 0)
    return 0;
  nfa->states[nfa->n_states] = state;
  return nfa->n_states++;
}

static uint32_t split(struct builder *b, uint32_t one, uint32_t other)
{
  return add_state(
      b, (struct lls_nfa_state){.kind = LLS_NFA_SPLIT, .out = one, .other = other});
}

static uint32_t range(struct builder *b, uint8_t lo, uint8_t hi, uint32_t next)
{
  return add_state(
      b, (struct lls_nfa_state){.kind = LLS_NFA_RANGE, .lo = lo, .hi = hi, .out = next});
}

/* Returns the rule of a node, which is made when the node is first called. */
static uint32_t rule_for(struct builder *b, uint32_t node, uint32_t min, uint32_t max,
                         bool counted)
{
  struct lls_nfa *nfa = b->nfa;
  if (b->rule_of[node] != NONE)
    return b->rule_of[node];
  if (nfa->n_rules == nfa->rule_capacity) {
    uint32_t capacity = nfa->rule_capacity == 0 ? 16 : 2 * nfa->rule_capacity;
    struct lls_nfa_rule *grown = realloc(nfa->rules, capacity * sizeof *grown);
    if (grown == NULL) {
      fail(b, -ENOMEM);
      return 0;
    }
    nfa->rules = grown;
    nfa->rule_capacity = capacity;
  }
  nfa->rules[nfa->n_rules] =
      (struct lls_nfa_rule){.min = min, .max = max, .counted = counted};
  b->todo[nfa->n_rules] = node;
  b->rule_of[node] = nfa->n_rules;
  return nfa->n_rules++;
}

/* Makes a call state, and a path around the call if the called node may be empty. */
static uint32_t call(struct builder *b, uint32_t rule, bool nullable, uint32_t next)
{
  uint32_t at = add_state(
      b, (struct lls_nfa_state){.kind = LLS_NFA_CALL, .out = next, .other = rule});
  return nullable ? split(b, at, next) : at;
}

/* ---- states of nodes -------------------------------------------------------------- */

static uint32_t build(struct builder *b, uint32_t node, uint32_t next);

static uint32_t build_sequence_of_ranges(struct builder *b,
                                         const struct lls_utf8_sequence *s, uint32_t next,
                                         uint32_t first_shared)
{
  for (uint32_t i = s->n; i-- > 1;) {
    uint32_t at = first_shared, end = b->nfa->n_states;
    for (; at < end; at++) { /* the ends of the sequences are mostly equal */
      const struct lls_nfa_state *t = &b->nfa->states[at];
      if (t->kind == LLS_NFA_RANGE && t->lo == s->lo[i] && t->hi == s->hi[i] &&
          t->out == next)
        break;
    }
    next = at < end ? at : range(b, s->lo[i], s->hi[i], next);
    if (end - first_shared > 32)
      first_shared = end - 32;
  }
  return range(b, s->lo[0], s->hi[0], next);
}

static uint32_t build_class(struct builder *b, const struct lls_grammar_node *n,
                            uint32_t next)
{
  struct lls_utf8_sequence sequences[LLS_UTF8_SEQUENCES];
  uint32_t first = b->nfa->n_states, all = NONE;
  for (uint32_t r = 0; r < n->n && b->failed == 0; r++) {
    uint32_t count = lls_utf8_ranges(n->ranges[r].first, n->ranges[r].last, sequences);
    for (uint32_t i = 0; i < count; i++) {
      uint32_t one = build_sequence_of_ranges(b, &sequences[i], next, first);
      all = all == NONE ? one : split(b, one, all);
    }
  }
  return all;
}

static uint32_t build_choice(struct builder *b, const struct lls_grammar_node *n,
                             uint32_t next)
{
  uint32_t all = NONE;
  for (uint32_t i = n->n; i-- > 0 && b->failed == 0;) {
    if (!b->shapes[n->parts[i]].productive)
      continue;
    uint32_t one = build(b, n->parts[i], next);
    all = all == NONE ? one : split(b, one, all);
  }
  return all;
}

/* An unbounded repetition; the min mandatory repetitions are written out before it. */
static uint32_t build_star(struct builder *b, uint32_t part, uint32_t next)
{
  uint32_t loop = split(b, next, next);
  uint32_t body = build(b, part, loop);
  if (b->failed == 0)
    b->nfa->states[loop].out = body;
  return loop;
}

static bool is_counted(const struct builder *b, const struct lls_grammar_node *n)
{
  const struct lls_node_shape *part = &b->shapes[n->parts[0]];
  uint64_t copies = n->max == LLS_GRAMMAR_UNBOUNDED ? (uint64_t)n->min + 1 : n->max;
  if (b->limits->flat)
    return false;
  if (n->max > WIDE_FROM && part->wide)
    return true;
  return n->max > 1 && copies > 1 && copies * part->size > WRITTEN_OUT;
}

static uint32_t build_repeat(struct builder *b, uint32_t node,
                             const struct lls_grammar_node *n, uint32_t next)
{
  uint32_t part = n->parts[0];
  const struct lls_node_shape *shape = &b->shapes[part];
  uint32_t min = shape->nullable ? 0 : n->min;
  if (n->max == 0 || !shape->productive)
    return next;
  if (is_counted(b, n)) {
    uint32_t rule = rule_for(b, node, min == 0 ? 1 : min, n->max, true);
    return call(b, rule, min == 0, next);
  }
  uint32_t at = next;
  if (n->max == LLS_GRAMMAR_UNBOUNDED)
    at = build_star(b, part, next);
  for (uint32_t i = min; n->max != LLS_GRAMMAR_UNBOUNDED && i < n->max; i++)
    at = split(b, build(b, part, at), next);
  for (uint32_t i = 0; i < min && b->failed == 0; i++)
    at = build(b, part, at);
  return at;
}

/* Builds a part of a joined node. A part that is itself joined becomes a call, which
 * keeps the set of possible next parts small in each. */
static uint32_t build_part(struct builder *b, uint32_t part, uint32_t next)
{
  bool joined = lls_grammar_node_at(b->tree, part).kind == LLS_GRAMMAR_JOINED;
  if (joined && !b->limits->flat)
    return call(b, rule_for(b, part, 1, 1, false), b->shapes[part].nullable, next);
  return build(b, part, next);
}

/* Builds the parts from the last to the first. `here` is the state before the first
 * present part of those from i on. */
static uint32_t build_joined(struct builder *b, const struct lls_grammar_node *n,
                             uint32_t next)
{
  uint32_t here = NONE;
  bool may_end = true;
  for (uint32_t i = n->n; i-- > 1 && b->failed == 0;) {
    bool optional;
    uint32_t part = lls_node_part_of_joined(b->tree, n->parts[i], &optional);
    uint32_t after = next, later = here;
    bool goes_on = later != NONE && b->shapes[n->parts[0]].productive;
    if (!b->shapes[part].productive || (!goes_on && !may_end))
      continue;
    if (goes_on) {
      after = build(b, n->parts[0], later);
      after = may_end ? split(b, after, next) : after;
    }
    here = build_part(b, part, after);
    here = optional && later != NONE ? split(b, here, later) : here;
    may_end &= optional;
  }
  return here;
}

static uint32_t build_written_out(struct builder *b, uint32_t node, uint32_t next)
{
  struct lls_grammar_node n = lls_grammar_node_at(b->tree, node);
  switch (n.kind) {
  case LLS_GRAMMAR_LITERAL:
    for (uint32_t i = n.n; i-- > 0;)
      next = range(b, (uint8_t)n.bytes[i], (uint8_t)n.bytes[i], next);
    return next;
  case LLS_GRAMMAR_CLASS:
    return build_class(b, &n, next);
  case LLS_GRAMMAR_SEQUENCE:
    for (uint32_t i = n.n; i-- > 0 && b->failed == 0;)
      next = build(b, n.parts[i], next);
    return next;
  case LLS_GRAMMAR_CHOICE:
    return build_choice(b, &n, next);
  case LLS_GRAMMAR_REPEAT:
    return build_repeat(b, node, &n, next);
  case LLS_GRAMMAR_JOINED:
    return build_joined(b, &n, next);
  case LLS_GRAMMAR_RULE:
    return build(b, n.parts[0], next);
  }
  return next;
}

static bool is_called(struct builder *b, uint32_t node)
{
  const struct lls_node_shape *shape = &b->shapes[node];
  bool counted = false;
  struct lls_grammar_node n = lls_grammar_node_at(b->tree, node);
  if (n.kind == LLS_GRAMMAR_REPEAT)
    counted = is_counted(b, &n); /* such a node is always a rule */
  if (counted || n.kind == LLS_GRAMMAR_LITERAL)
    return false;
  bool deep = b->open[node] || b->depth >= DEEPEST_INLINE;
  if (deep && b->limits->flat)
    fail(b, -E2BIG);
  if (deep || b->limits->flat)
    return deep;
  return shape->size >= b->called_from && (b->rule_of[node] != NONE || shape->uses > 1);
}

/* Builds the states of a productive node, which continue with `next`. Returns its first
 * state. */
static uint32_t build(struct builder *b, uint32_t node, uint32_t next)
{
  if (b->failed != 0)
    return 0;
  if (is_called(b, node) && b->failed == 0)
    return call(b, rule_for(b, node, 1, 1, false), b->shapes[node].nullable, next);
  b->open[node] = true;
  b->depth++;
  uint32_t at = build_written_out(b, node, next);
  b->depth--;
  b->open[node] = false;
  return at;
}

/* ---- rules ------------------------------------------------------------------------ */

static void build_rule(struct builder *b, uint32_t rule)
{
  uint32_t node = b->todo[rule], first = b->nfa->n_states, start;
  uint32_t match = add_state(b, (struct lls_nfa_state){.kind = LLS_NFA_MATCH});
  struct lls_grammar_node n = lls_grammar_node_at(b->tree, node);
  b->depth = 0;
  b->called_from = b->nfa->rules[rule].counted ? CALLED_FROM_COUNTED : CALLED_FROM;
  if (b->nfa->rules[rule].counted) {
    start = build(b, n.parts[0], match);
  } else {
    b->open[node] = true;
    start = build_written_out(b, node, match);
    b->open[node] = false;
  }
  struct lls_nfa_rule *r = &b->nfa->rules[rule];
  r->start = start;
  r->first_state = first;
  r->n_states = b->nfa->n_states - first;
  for (uint32_t i = first; i < b->nfa->n_states && b->failed == 0; i++)
    r->calls |= b->nfa->states[i].kind == LLS_NFA_CALL;
}

static int reason(const struct builder *b, struct lls_error *err)
{
  switch (b->failed) {
  case -E2BIG:
    return lls_fail(err, -E2BIG,
                    "the grammar is too large: it has more than %u places for a byte",
                    b->limits->positions);
  case -ETIME:
    return lls_fail(err, -ETIME, "the grammar takes more than %lld ms to compile",
                    (long long)(b->limits->time_ns / 1000000));
  case -ECANCELED:
    return lls_fail(err, -ECANCELED, "compiling the grammar was cancelled");
  default:
    return lls_fail(err, b->failed, "no memory for the grammar");
  }
}

static int build_all(struct builder *b, struct lls_error *err)
{
  uint32_t root = lls_grammar_root(b->tree);
  if (lls_node_shapes_find(b->tree, b->shapes) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the grammar");
  if (!b->shapes[root].productive)
    return lls_fail(err, -EINVAL, "no text matches the grammar");
  b->nfa->root_nullable = b->shapes[root].nullable;
  memset(b->rule_of, 0xFF, lls_grammar_node_count(b->tree) * sizeof *b->rule_of);
  rule_for(b, root, 1, 1, false);
  b->rule_of[root] = NONE; /* a call of the root node gets a rule of its own */
  for (uint32_t i = 0; i < b->nfa->n_rules && b->failed == 0; i++)
    build_rule(b, i);
  if (b->failed == 0)
    fail(b, lls_nfa_analyse(b->nfa));
  return b->failed != 0 ? reason(b, err) : 0;
}

int lls_nfa_build(const struct lls_grammar_tree *tree,
                  const struct lls_grammar_limits *limits, struct lls_nfa *nfa,
                  struct lls_error *err)
{
  uint32_t n = lls_grammar_node_count(tree);
  struct builder b = {.tree = tree, .limits = limits, .nfa = nfa, .started_ns = now_ns()};
  *nfa = (struct lls_nfa){0};
  int rc = lls_grammar_tree_check(tree, err);
  if (rc < 0)
    return rc;
  b.shapes = calloc(n, sizeof *b.shapes);
  b.rule_of = calloc(n, sizeof *b.rule_of);
  b.open = calloc(n, sizeof *b.open);
  b.todo = calloc((size_t)n + 1, sizeof *b.todo); /* at most one rule per node, and the
                                                   * root's */
  if (b.shapes == NULL || b.rule_of == NULL || b.open == NULL || b.todo == NULL)
    rc = lls_fail(err, -ENOMEM, "no memory for the grammar");
  else
    rc = build_all(&b, err);
  free(b.shapes);
  free(b.rule_of);
  free(b.open);
  free(b.todo);
  if (rc < 0)
    lls_nfa_free(nfa);
  return rc;
}

void lls_nfa_free(struct lls_nfa *nfa)
{
  free(nfa->states);
  free(nfa->rules);
  *nfa = (struct lls_nfa){0};
}
