/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of cached prefixes (policy/tree.h), on random traces, compared with an
 * oracle that has a table of all prefixes (tree_rig.h): the blocks that a request
 * finds, the evicted blocks and their order, and that a rollback restores everything.
 */
#include "t/unit/tree_rig.h"

static const struct set {
  uint32_t n_groups, block_units[GROUPS];
  struct lls_group groups[GROUPS];
} sets[] = {
    {1, {2}, {{.kind = LLS_GROUP_FULL, .window = 0}}},
    {2,
     {1, 3},
     {{.kind = LLS_GROUP_FULL, .window = 0}, {.kind = LLS_GROUP_WINDOW, .window = 9}}},
    {2,
     {2, 2},
     {{.kind = LLS_GROUP_FULL, .window = 0}, {.kind = LLS_GROUP_WINDOW, .window = 5}}},
    {2,
     {1, 7},
     {{.kind = LLS_GROUP_FULL, .window = 0}, {.kind = LLS_GROUP_STATE, .window = 0}}},
    {3,
     {1, 2, 9},
     {{.kind = LLS_GROUP_FULL, .window = 0},
      {.kind = LLS_GROUP_WINDOW, .window = 8},
      {.kind = LLS_GROUP_STATE, .window = 0}}},
    {2,
     {2, 3},
     {{.kind = LLS_GROUP_FULL, .window = 0}, {.kind = LLS_GROUP_CHUNK, .window = 8}}},
    {1, {3}, {{.kind = LLS_GROUP_STATE, .window = 0}}},
    {1, {1}, {{.kind = LLS_GROUP_WINDOW, .window = 6}}},
};

static struct rig_entry *entry_of(struct rig *r, const struct rig_sequence *q,
                                  uint32_t group, uint32_t i, uint32_t tier)
{
  return &r->now.entries[rig_code(q->word, i + 1)][group][tier];
}

/* Makes the sequence release its i-th block of the group. */
static void let_go(struct rig *r, struct rig_sequence *q, uint32_t group, uint32_t i)
{
  uint32_t unit = q->units[group][i];
  struct rig_entry *e = entry_of(r, q, group, i, 0);
  if (unit == LLS_POL_NIL)
    return;
  q->units[group][i] = LLS_POL_NIL;
  if (e->there && e->unit == unit) {
    e->holders--;
    e->since = ++r->now.clock;
  }
  lls_pol_tree_let_go(&r->t, 0, unit);
}

static void end(struct rig *r, struct rig_sequence *q)
{
  for (uint32_t i = DEPTH; i-- > 0;)
    for (uint32_t g = r->t.n_groups; g-- > 0;)
      let_go(r, q, g, i);
  q->alive = false;
}

/* Releases the blocks before those that are read after the last block. */
static void trim(struct rig *r, struct rig_sequence *q)
{
  for (uint32_t g = 0; g < r->t.n_groups; g++)
    for (uint32_t i = 0; i < q->n; i++)
      if (!rig_needs(r->t.groups[g], i, q->n))
        let_go(r, q, g, i);
}

/* Takes the cached prefix of its prompt, and begins after it. */
static void begin(struct rig *r, struct rig_sequence *q, uint32_t word, uint32_t most)
{
  const struct lls_key *keys = rig_keys(r, word);
  struct lls_pol_match found;
  lls_pol_tree_match(&r->t, keys, most, 1, &found);
  assert_int_equal(found.n, rig_longest(r, word, most, 1));
  memset(q, 0xff, sizeof *q);
  q->alive = true;
  q->word = word;
  q->n = found.n;
  for (uint32_t g = 0; g < r->t.n_groups; g++)
    for (uint32_t i = lls_pol_tree_begin(&r->t, g, found.n); i < found.n; i++) {
      struct rig_entry *e = entry_of(r, q, g, i, 0);
      uint32_t node = lls_pol_tree_find(&r->t, &keys[i]);
      q->units[g][i] = lls_pol_tree_block(&r->t, node, g, 0);
      lls_pol_tree_hold(&r->t, 0, q->units[g][i]);
      assert_true(e->there && e->unit == q->units[g][i]);
      e->holders++;
    }
}

/* Takes a block of each group and computes them, so that they enter the tree; or takes
 * none. */
static void grow(struct rig *r, struct rig_sequence *q, bool has_state)
{
  uint32_t i = q->n, taken = 0;
  for (uint32_t g = 0; g < r->t.n_groups && taken == g; g++) {
    uint32_t kind = lls_pol_slabs_class(&r->slabs[0], r->block_units[g]);
    q->units[g][i] = lls_pol_slabs_take(&r->slabs[0], kind);
    taken += q->units[g][i] != LLS_POL_NIL;
  }
  if (taken < r->t.n_groups) {
    for (uint32_t g = 0; g < taken; g++)
      let_go(r, q, g, i);
    q->units[taken][i] = LLS_POL_NIL;
    return;
  }
  q->n++;
  for (uint32_t g = 0; g < r->t.n_groups; g++) {
    struct rig_entry *e = entry_of(r, q, g, i, 0);
    if (r->t.groups[g]->kind == LLS_GROUP_STATE && !has_state)
      continue;
    uint32_t own = q->units[g][i];
    uint32_t unit = lls_pol_tree_put(&r->t, rig_keys(r, q->word), i, g, 0, own);
    if (unit != own) {
      assert_true(e->there && e->unit == unit);
      lls_pol_tree_hold(&r->t, 0, unit);
      lls_pol_tree_let_go(&r->t, 0, own);
      q->units[g][i] = unit;
      e->holders++;
    } else if (lls_pol_tree_has(&r->t, 0, own)) {
      *e = (struct rig_entry){.there = true, .unit = own, .holders = 1};
    }
  }
  trim(r, q);
}

/* Makes a copy on the host of a block of the tree, and keeps it there. */
static void copy_to_host(struct rig *r, const struct rig_sequence *q, uint32_t i,
                         uint32_t group)
{
  struct rig_entry *e = entry_of(r, q, group, i, 1);
  uint32_t kind = lls_pol_slabs_class(&r->slabs[1], r->block_units[group]);
  uint32_t unit = lls_pol_slabs_take(&r->slabs[1], kind);
  if (unit == LLS_POL_NIL)
    return;
  uint32_t known = lls_pol_tree_put(&r->t, rig_keys(r, q->word), i, group, 1, unit);
  if (known == unit && lls_pol_tree_has(&r->t, 1, unit)) {
    assert_false(e->there);
    *e = (struct rig_entry){.there = true, .unit = unit, .since = ++r->now.clock};
  }
  lls_pol_tree_let_go(&r->t, 1, unit);
}

static void forget(struct rig *r, const struct rig_sequence *q, uint32_t i,
                   uint32_t group)
{
  struct rig_entry *e = entry_of(r, q, group, i, 0);
  if (!e->there)
    return;
  bool leaves = e->holders == 0 && rig_may_leave(r, rig_code(q->word, i + 1), group, 0);
  lls_pol_tree_forget(&r->t, 0, e->unit);
  if (leaves)
    rig_leave(r, rig_code(q->word, i + 1), group, 0);
}

static void one_verb(struct rig *r, struct dice *d)
{
  struct rig_sequence *q = &r->now.sequences[dice(d, 0, SEQUENCES - 1)];
  uint32_t group = dice(d, 0, r->t.n_groups - 1);
  if (!q->alive) {
    begin(r, q, dice(d, 0, (1u << DEPTH) - 1), dice(d, 0, DEPTH));
    return;
  }
  switch (dice(d, 0, 9)) {
  case 0:
    end(r, q);
    break;
  case 1:
    forget(r, q, dice(d, 0, DEPTH - 1), group);
    break;
  case 2:
    if (r->t.n_tiers > 1 && q->n > 0)
      copy_to_host(r, q, dice(d, 0, q->n - 1), group);
    break;
  default:
    if (q->n < DEPTH)
      grow(r, q, dice(d, 0, 1));
    else
      end(r, q);
  }
}

/* In a transaction sequences begin and end and blocks are taken, but no block enters
 * the tree. */
static void transaction(struct rig *r, struct dice *d)
{
  char *before = rig_audit(r);
  bool commit = dice(d, 0, 1);
  r->before = r->now;
  assert_int_equal(lls_pol_journal_begin(&r->journal), 0);
  for (uint32_t i = 0; i < 3; i++) {
    struct rig_sequence *q = &r->now.sequences[dice(d, 0, SEQUENCES - 1)];
    if (q->alive && dice(d, 0, 1))
      end(r, q);
    else if (!q->alive)
      begin(r, q, dice(d, 0, (1u << DEPTH) - 1), DEPTH);
    uint32_t kind = dice(d, 0, r->slabs[0].n_classes - 1);
    uint32_t unit = lls_pol_slabs_take(&r->slabs[0], kind);
    if (unit != LLS_POL_NIL && commit)
      lls_pol_tree_let_go(&r->t, 0, unit);
  }
  if (!commit) {
    assert_int_equal(lls_pol_journal_rollback(&r->journal, 0), 0);
    r->now = r->before;
    char *after = rig_audit(r);
    assert_string_equal(after, before);
    free(after);
  }
  assert_int_equal(lls_pol_journal_commit(&r->journal), 0);
  free(before);
}

static void compare_all(struct rig *r, uint32_t tiers)
{
  struct lls_pol_match found;
  for (uint32_t word = 0; word < 1u << DEPTH; word++) {
    lls_pol_tree_match(&r->t, rig_keys(r, word), DEPTH, tiers, &found);
    assert_int_equal(found.n, rig_longest(r, word, DEPTH, tiers));
    assert_true(found.known >= found.n);
  }
}

/* Takes at most `max` changes, each of which must be one. Returns how many there were. */
static size_t follow(struct rig *r, size_t max)
{
  struct lls_block_change changes[CODES * GROUPS * TIERS * 2];
  size_t n = lls_pol_tree_changes(&r->t, changes, max);
  assert_true(n <= max);
  for (size_t i = 0; i < n; i++) {
    const struct lls_block_change *c = &changes[i];
    bool *there = &r->followed[c->key.word[1]][c->group][c->tier];
    assert_int_equal(*there, c->kind == LLS_BLOCK_REMOVED);
    *there = !*there;
  }
  return n;
}

/* A reader that has followed all changes knows the tree, or that it is hidden. */
static void compare_followed(struct rig *r)
{
  while (follow(r, 5) > 0)
    ;
  for (uint32_t code = 2; code < CODES; code++)
    for (uint32_t group = 0; group < r->t.n_groups; group++)
      for (uint32_t tier = 0; tier < r->t.n_tiers; tier++)
        assert_int_equal(r->followed[code][group][tier],
                         !r->t.is_hidden && r->now.entries[code][group][tier].there);
}

static void play(const struct set *set, uint32_t n_tiers, uint64_t seed)
{
  static struct rig r;
  struct dice d = {seed};
  rig_make(&r, set->groups, set->n_groups, n_tiers, 64 + dice(&d, 0, 40),
           set->block_units);
  for (uint32_t i = 0; i < TAP_LOTS(400); i++) {
    if (dice(&d, 0, 5) == 0)
      transaction(&r, &d);
    else
      one_verb(&r, &d);
    rig_check(&r);
    if (i % 8 == 0)
      compare_all(&r, dice(&d, 1, (1u << n_tiers) - 1));
    if (dice(&d, 0, 3) == 0)
      follow(&r, dice(&d, 0, 4));
    if (i % 16 == 0)
      compare_followed(&r);
    if (dice(&d, 0, 30) == 0)
      lls_pol_tree_hide(&r.t, !r.t.is_hidden);
  }
  for (uint32_t i = 0; i < SEQUENCES; i++)
    if (r.now.sequences[i].alive)
      end(&r, &r.now.sequences[i]);
  rig_check(&r);
  for (uint32_t i = 0; i < r.slabs[0].n_classes; i++)
    assert_int_equal(r.slabs[0].classes[i].n_held, 0);
  rig_end(&r);
}

static void test_the_oracle_agrees(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (uint64_t seed = 1; seed <= 3; seed++)
      play(&sets[i], 1, seed);
}

static void test_with_a_host_too(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (uint64_t seed = 1; seed <= 3; seed++)
      play(&sets[i], TIERS, seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_oracle_agrees),
      cmocka_unit_test(test_with_a_host_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
