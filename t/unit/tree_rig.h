/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rig that compares a tree (policy/tree.h) with an oracle that knows all possible
 * prefixes: prompts are words of zeros and ones, each bit a block, so a prefix of up to
 * DEPTH blocks is one of CODES numbers, and the oracle has a table of each prefix,
 * group and tier.
 */
#ifndef LLS_T_TREE_RIG_H
#define LLS_T_TREE_RIG_H

#include <llmserve/policy/tree.h> /* before cmocka, which has a macro `fail` */

#include "t/dice.h"
#include "t/unit/audit_text.h"

#define DEPTH     6
#define CODES     (2u << DEPTH)
#define GROUPS    3
#define TIERS     2
#define SEQUENCES 5
#define TOKENS    4 /* tokens of a block */

struct rig_entry { /* a block that is in the tree */
  bool there;
  uint32_t unit, holders, since;
};

struct rig_sequence {
  bool alive;
  uint32_t word, n;              /* bits of its prompt, and number of computed blocks */
  uint32_t units[GROUPS][DEPTH]; /* units that it holds, or LLS_POL_NIL */
};

struct rig_world { /* the state that a rollback restores */
  struct rig_entry entries[CODES][GROUPS][TIERS];
  struct rig_sequence sequences[SEQUENCES];
  uint32_t clock;
};

struct rig {
  struct lls_pol_tree t;
  struct lls_pol_slabs slabs[TIERS];
  struct lls_pol_journal journal;
  struct rig_world now, before;
  struct lls_key keys[DEPTH];
  const struct lls_group *groups[GROUPS];
  uint32_t block_units[GROUPS];
  bool (*drop)(void *context, uint32_t unit); /* the tree's own drop */
  uint32_t n_moved, n_left;
  bool followed[CODES][GROUPS][TIERS]; /* the blocks that changes have shown */
};

/* Number of the prefix of n blocks of a prompt. */
static inline uint32_t rig_code(uint32_t word, uint32_t n)
{
  return 1u << n | (word & ((1u << n) - 1));
}

static inline struct lls_key rig_key(uint32_t code)
{
  struct dice d = {code};
  return (struct lls_key){{dice_next(&d), code}};
}

/* The keys of a prompt, valid until the next call. */
static inline const struct lls_key *rig_keys(struct rig *r, uint32_t word)
{
  for (uint32_t i = 0; i < DEPTH; i++)
    r->keys[i] = rig_key(rig_code(word, i + 1));
  return r->keys;
}

/* Returns the state as text, which the caller frees; NULL if the audit finds an
 * error. */
static inline char *rig_audit(struct rig *r)
{
  char *text = NULL;
  struct lls_host host = {.fail = audit_text_fail};
  struct lls_sink sink = {.context = &text, .text = audit_text_add};
  struct lls_pol_report a = {.m = r, .host = &host, .sink = &sink};
  bool good = true;
  for (uint32_t tier = 0; tier < r->t.n_tiers && good; tier++)
    good = lls_pol_slabs_audit(&r->slabs[tier], &a);
  if (good && lls_pol_tree_audit(&r->t, &a))
    return text;
  free(text);
  return NULL;
}

/* Called when blocks move: the tree updates its units; so do the sequences and the
 * oracle. */
static inline bool rig_moved(void *context, uint32_t first, uint32_t block_units,
                             const uint32_t *to, uint32_t n)
{
  struct lls_pol_tree_tier *at = context;
  struct rig *r = (struct rig *)(void *)at->tree; /* its first member */
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from = first + i * block_units;
    if (to[i] == LLS_POL_NIL)
      continue;
    r->n_moved++;
    lls_pol_tree_moved(&r->t, at->number, from, to[i]);
    for (uint32_t s = 0; s < SEQUENCES * GROUPS * DEPTH; s++) {
      struct rig_sequence *q = &r->now.sequences[s / DEPTH / GROUPS];
      uint32_t *u = &q->units[s / DEPTH % GROUPS][s % DEPTH];
      *u = q->alive && *u == from ? to[i] : *u;
    }
    for (uint32_t e = 0; e < CODES * GROUPS; e++) {
      struct rig_entry *entry = &r->now.entries[e / GROUPS][e % GROUPS][at->number];
      if (entry->there && entry->unit == from)
        entry->unit = to[i];
    }
  }
  return true;
}

static inline bool rig_drop(void *context, uint32_t unit);

static inline void rig_make(struct rig *r, const struct lls_group *groups,
                            uint32_t n_groups, uint32_t n_tiers, uint32_t n_units,
                            const uint32_t *block_units)
{
  uint32_t sizes[GROUPS], n_sizes = 0;
  *r = (struct rig){0};
  for (uint32_t g = 0; g < n_groups; g++) {
    uint32_t i = 0;
    r->block_units[g] = block_units[g];
    r->groups[g] = &groups[g];
    while (i < n_sizes && sizes[i] != block_units[g])
      i++;
    if (i == n_sizes)
      sizes[n_sizes++] = block_units[g];
  }
  r->journal.max = 1u << 18;
  r->journal.changes = calloc(r->journal.max, sizeof *r->journal.changes);
  r->t.journal = &r->journal;
  r->t.block_tokens = TOKENS;
  r->t.n_groups = n_groups;
  r->t.groups = r->groups;
  r->t.n_tiers = n_tiers;
  r->t.shows_changes = true;
  for (uint32_t tier = 0; tier < n_tiers; tier++) {
    struct lls_pol_slabs *s = &r->slabs[tier];
    s->journal = &r->journal;
    s->most_moved = UINT32_MAX;
    s->owner.moved = tier == 0 ? rig_moved : NULL;
    assert_int_equal(lls_pol_slabs_init(s, n_units, sizes, n_sizes), 0);
    lls_pol_slabs_make_empty(s);
    r->t.tiers[tier].slabs = s;
  }
  assert_int_equal(lls_pol_tree_init(&r->t), 0);
  lls_pol_tree_make_empty(&r->t);
  r->drop = r->slabs[0].owner.drop;
  for (uint32_t tier = 0; tier < n_tiers; tier++)
    r->slabs[tier].owner.drop = rig_drop;
  memset(r->now.sequences, 0xff, sizeof r->now.sequences);
  for (uint32_t i = 0; i < SEQUENCES; i++)
    r->now.sequences[i].alive = false;
}

static inline void rig_end(struct rig *r)
{
  lls_pol_tree_destroy(&r->t);
  for (uint32_t tier = 0; tier < r->t.n_tiers; tier++)
    lls_pol_slabs_destroy(&r->slabs[tier]);
  free(r->journal.changes);
}

/* ---- the oracle ---------------------------------------------------------------- */

/* Does a row at position `context` read token p? */
static inline bool rig_reads(const struct lls_group *g, uint32_t p, uint32_t context)
{
  switch (g->kind) {
  case LLS_GROUP_WINDOW:
    return context - p < g->window;
  case LLS_GROUP_CHUNK:
    return p / g->window == context / g->window;
  case LLS_GROUP_STATE:
    return p + TOKENS >= context; /* the last block has the state */
  default:
    return true;
  }
}

/* Is block i of a prompt read by rows that follow n blocks? */
static inline bool rig_needs(const struct lls_group *g, uint32_t i, uint32_t n)
{
  for (uint32_t p = i * TOKENS; p < (i + 1) * TOKENS; p++)
    if (rig_reads(g, p, n * TOKENS))
      return true;
  return false;
}

static inline bool rig_has(const struct rig *r, uint32_t code, uint32_t group,
                           uint32_t tiers)
{
  for (uint32_t tier = 0; tier < r->t.n_tiers; tier++)
    if (tiers >> tier & 1 && r->now.entries[code][group][tier].there)
      return true;
  return false;
}

static inline bool rig_is_hit(const struct rig *r, uint32_t word, uint32_t n,
                              uint32_t tiers)
{
  for (uint32_t g = 0; g < r->t.n_groups; g++)
    for (uint32_t i = 0; i < n; i++)
      if (rig_needs(r->t.groups[g], i, n) && !rig_has(r, rig_code(word, i + 1), g, tiers))
        return false;
  return true;
}

static inline uint32_t rig_longest(const struct rig *r, uint32_t word, uint32_t most,
                                   uint32_t tiers)
{
  uint32_t n = most;
  while (n > 0 && !rig_is_hit(r, word, n, tiers))
    n--;
  return n;
}

/* ---- what leaves --------------------------------------------------------------- */

static inline bool rig_has_child(const struct rig *r, uint32_t code)
{
  uint32_t n = 31u - (uint32_t)__builtin_clz(code), word = code & ((1u << n) - 1);
  if (n == DEPTH)
    return false;
  for (uint32_t g = 0; g < r->t.n_groups; g++)
    if (rig_has(r, rig_code(word, n + 1), g, UINT32_MAX) ||
        rig_has(r, rig_code(word | 1u << n, n + 1), g, UINT32_MAX))
      return true;
  return false;
}

static inline bool rig_may_leave(const struct rig *r, uint32_t code, uint32_t group,
                                 uint32_t tier)
{
  return r->t.groups[group]->kind != LLS_GROUP_FULL || !rig_has_child(r, code) ||
         rig_has(r, code, group, ~(1u << tier));
}

/* Removes a block. If its group reads all tokens and no tier has the block any more, the
 * prefix's blocks of all other groups are removed, too. */
static inline void rig_leave(struct rig *r, uint32_t code, uint32_t group, uint32_t tier)
{
  r->now.entries[code][group][tier].there = false;
  r->n_left++;
  if (r->t.groups[group]->kind == LLS_GROUP_FULL && !rig_has(r, code, group, UINT32_MAX))
    for (uint32_t g = 0; g < GROUPS; g++)
      for (uint32_t at = 0; at < TIERS; at++)
        r->now.entries[code][g][at].there = false;
}

static inline uint32_t rig_code_of(const struct rig *r, uint32_t tier, uint32_t unit,
                                   uint32_t *group)
{
  for (uint32_t code = 2; code < CODES; code++)
    for (*group = 0; *group < r->t.n_groups; (*group)++) {
      const struct rig_entry *e = &r->now.entries[code][*group][tier];
      if (e->there && e->unit == unit)
        return code;
    }
  fail_msg("unit %u of tier %u is not in the tree", unit, tier);
  return 0;
}

/* Is there another free block of the same size that was released earlier? */
static inline bool rig_has_older(const struct rig *r, uint32_t code, uint32_t group,
                                 uint32_t tier)
{
  uint32_t since = r->now.entries[code][group][tier].since;
  for (uint32_t other = 2; other < CODES; other++)
    for (uint32_t g = 0; g < r->t.n_groups; g++) {
      const struct rig_entry *e = &r->now.entries[other][g][tier];
      if (e->there && e->holders == 0 && e->since < since &&
          r->block_units[g] == r->block_units[group] && rig_may_leave(r, other, g, tier))
        return true;
    }
  return false;
}

/* Called between slabs and tree: the dropped block must be the oracle's choice, too. */
static inline bool rig_drop(void *context, uint32_t unit)
{
  struct lls_pol_tree_tier *at = context;
  struct rig *r = (struct rig *)(void *)at->tree;
  uint32_t group, code = rig_code_of(r, at->number, unit, &group);
  bool may = rig_may_leave(r, code, group, at->number);
  assert_int_equal(r->now.entries[code][group][at->number].holders, 0);
  if (at->slabs->owner.moved != NULL)
    assert_true(may ? !rig_has_older(r, code, group, at->number) : r->t.n_tiers > 1);
  bool gone = r->drop(context, unit);
  assert_true(gone || !may); /* with two tiers a block may leave that others follow */
  assert_true(gone == may || r->t.n_tiers > 1);
  if (gone)
    rig_leave(r, code, group, at->number);
  return gone;
}

/* The tree must contain exactly the oracle's blocks. */
static inline void rig_check(struct rig *r)
{
  uint32_t n = 0, counted = 0;
  for (uint32_t e = 0; e < CODES * GROUPS * TIERS; e++) {
    uint32_t code = e / TIERS / GROUPS, group = e / TIERS % GROUPS, tier = e % TIERS;
    const struct rig_entry *entry = &r->now.entries[code][group][tier];
    if (!entry->there)
      continue;
    struct lls_key key = rig_key(code);
    uint32_t node = lls_pol_tree_find(&r->t, &key);
    assert_int_not_equal(node, LLS_POL_NIL);
    assert_int_equal(lls_pol_tree_block(&r->t, node, group, tier), entry->unit);
    assert_int_equal(lls_pol_slabs_holders(&r->slabs[tier], entry->unit), entry->holders);
    n++;
  }
  for (uint32_t node = 0; node < r->t.n_nodes; node++)
    counted += r->t.nodes[node].n_blocks;
  assert_int_equal(n, counted);
  char *text = rig_audit(r);
  assert_non_null(text);
  free(text);
}

#endif
