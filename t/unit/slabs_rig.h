/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner of blocks for tests of policy/slabs.h: it records what each unit holds,
 * keeps released blocks in the order of their release, and does the allocator's moves
 * at once.
 */
#ifndef LLS_T_SLABS_RIG_H
#define LLS_T_SLABS_RIG_H

#include <llmserve/policy/slabs.h> /* before cmocka, which has a macro `fail` */

#include "t/unit/audit_text.h"

struct rig_block {
  uint32_t unit, kind, holders, since, name;
};

struct rig {
  struct lls_pol_slabs s;
  struct lls_pol_journal journal;
  bool moves;
  struct rig_block *blocks, *blocks_before; /* (n_units) */
  uint32_t n_blocks, n_before;
  uint32_t *at_unit; /* (n_units) index of the block that begins at the unit */
  uint32_t n_units, clock, names, *of_name;
  uint64_t n_moved, n_dropped;
  char *before; /* text of the last audit */
};

/* Says nothing: many states here are wrong on purpose. */
static inline int rig_fail(void *context, int rc, const char *format, ...)
{
  (void)context, (void)format;
  return rc;
}

/* Returns NULL if the audit finds an error; the text is valid until the second next
 * call. */
static inline char *rig_audit(struct rig *r)
{
  static char *texts[2];
  static int turn;
  char **text = &texts[turn ^= 1];
  struct lls_host host = {.fail = rig_fail};
  struct lls_sink sink = {.context = text, .text = audit_text_add};
  struct lls_pol_report a = {.m = r, .host = &host, .sink = &sink};
  if (*text != NULL)
    **text = '\0';
  return lls_pol_slabs_audit(&r->s, &a) ? *text : NULL;
}

static inline uint32_t rig_index(const struct rig *r, uint32_t unit)
{
  assert_true(unit < r->n_units && r->at_unit[unit] < r->n_blocks);
  return r->at_unit[unit];
}

static inline void rig_place(struct rig *r, uint32_t block)
{
  r->at_unit[r->blocks[block].unit] = block;
  r->of_name[r->blocks[block].name] = block;
}

static inline void rig_forget(struct rig *r, uint32_t block)
{
  r->at_unit[r->blocks[block].unit] = LLS_POL_NIL;
  r->of_name[r->blocks[block].name] = LLS_POL_NIL;
  if (block != --r->n_blocks) {
    r->blocks[block] = r->blocks[r->n_blocks];
    rig_place(r, block);
  }
}

static inline uint32_t rig_victim(void *context, uint32_t kind, uint32_t *since)
{
  struct rig *r = context;
  uint32_t best = LLS_POL_NIL;
  for (uint32_t i = 0; i < r->n_blocks; i++)
    if (r->blocks[i].kind == kind && r->blocks[i].holders == 0 &&
        (best == LLS_POL_NIL || r->blocks[i].since < r->blocks[best].since))
      best = i;
  if (best == LLS_POL_NIL)
    return best;
  *since = r->blocks[best].since;
  return r->blocks[best].unit;
}

static inline bool rig_drop(void *context, uint32_t unit)
{
  struct rig *r = context;
  uint32_t block = rig_index(r, unit);
  assert_int_equal(r->blocks[block].holders, 0);
  lls_pol_slabs_free(&r->s, unit);
  rig_forget(r, block);
  r->n_dropped++;
  return true;
}

static inline bool rig_moved(void *context, uint32_t first, uint32_t block_units,
                             const uint32_t *to, uint32_t n)
{
  struct rig *r = context;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from = first + i * block_units;
    if (to[i] == LLS_POL_NIL)
      continue;
    uint32_t block = rig_index(r, from);
    assert_int_equal(r->s.classes[r->blocks[block].kind].block_units, block_units);
    r->at_unit[from] = LLS_POL_NIL;
    r->blocks[block].unit = to[i];
    rig_place(r, block);
    r->n_moved++;
  }
  return true;
}

static inline void rig_make(struct rig *r, uint32_t n_units, const uint32_t *units,
                            uint32_t n_classes, bool moves)
{
  *r = (struct rig){.moves = moves, .n_units = n_units};
  r->journal.max = 1u << 20;
  r->journal.changes = calloc(r->journal.max, sizeof *r->journal.changes);
  r->s.journal = &r->journal;
  r->s.owner =
      (struct lls_pol_slabs_owner){r, rig_victim, rig_drop, moves ? rig_moved : NULL};
  r->s.most_moved = 1;
  assert_int_equal(lls_pol_slabs_init(&r->s, n_units, units, n_classes), 0);
  lls_pol_slabs_make_empty(&r->s);
  r->blocks = calloc(n_units, sizeof *r->blocks);
  r->blocks_before = calloc(n_units, sizeof *r->blocks);
  r->at_unit = malloc(n_units * sizeof *r->at_unit);
  r->of_name = malloc((1u << 20) * sizeof *r->of_name);
  memset(r->at_unit, 0xff, n_units * sizeof *r->at_unit);
}

static inline void rig_end(struct rig *r)
{
  lls_pol_slabs_destroy(&r->s);
  free(r->journal.changes);
  free(r->blocks);
  free(r->blocks_before);
  free(r->at_unit);
  free(r->of_name);
  free(r->before);
}

static inline void rig_begin(struct rig *r)
{
  assert_int_equal(lls_pol_journal_begin(&r->journal), 0);
  lls_pol_slabs_begin(&r->s);
  lls_pol_slabs_verb(&r->s);
  memcpy(r->blocks_before, r->blocks, r->n_blocks * sizeof *r->blocks);
  r->n_before = r->n_blocks;
  free(r->before);
  r->before = strdup(rig_audit(r));
}

static inline void rig_commit(struct rig *r)
{
  assert_int_equal(lls_pol_journal_commit(&r->journal), 0);
}

/* Checks that the state is the one before, including the order of all lists. */
static inline void rig_rollback(struct rig *r)
{
  assert_int_equal(lls_pol_journal_rollback(&r->journal, 0), 0);
  rig_commit(r);
  assert_string_equal(rig_audit(r), r->before);
  memcpy(r->blocks, r->blocks_before, r->n_before * sizeof *r->blocks);
  memset(r->at_unit, 0xff, r->n_units * sizeof *r->at_unit);
  r->n_blocks = r->n_before;
  for (uint32_t i = 0; i < r->n_blocks; i++)
    rig_place(r, i);
}

/* From now on nothing is rolled back, and each step may move blocks. */
static inline void rig_commit_at_once(struct rig *r)
{
  r->s.most_moved = UINT32_MAX;
  lls_pol_slabs_verb(&r->s);
}

static inline bool rig_take(struct rig *r, uint32_t kind)
{
  uint32_t unit = lls_pol_slabs_take(&r->s, kind);
  if (unit == LLS_POL_NIL)
    return false;
  assert_true(unit < r->n_units && r->at_unit[unit] == LLS_POL_NIL &&
              r->n_blocks < r->n_units && r->names < 1u << 20);
  r->blocks[r->n_blocks] =
      (struct rig_block){.unit = unit, .kind = kind, .holders = 1, .name = r->names++};
  rig_place(r, r->n_blocks++);
  return true;
}

static inline uint32_t rig_name(const struct rig *r, uint32_t block)
{
  return r->blocks[block].name;
}

static inline uint32_t rig_find(const struct rig *r, uint32_t name)
{
  assert_true(r->of_name[name] < r->n_blocks);
  return r->of_name[name];
}

static inline void rig_hold(struct rig *r, uint32_t block)
{
  lls_pol_slabs_hold(&r->s, r->blocks[block].unit);
  r->blocks[block].holders++;
}

static inline void rig_let_go(struct rig *r, uint32_t block, bool keep)
{
  struct rig_block *b = &r->blocks[block];
  bool last = lls_pol_slabs_let_go(&r->s, b->unit);
  assert_int_equal(last, --b->holders == 0);
  b->since = ++r->clock;
  if (last && !keep) {
    lls_pol_slabs_free(&r->s, b->unit);
    rig_forget(r, block);
  }
}

/* Counts units in slabs that hold released blocks only. */
static inline uint32_t rig_kept_slabs(const struct rig *r)
{
  uint32_t slabs = 0;
  for (uint32_t x = 0; x < r->s.n_slabs; x++)
    slabs += r->s.slabs[x].kind != LLS_POL_NIL && r->s.slabs[x].n_held == 0;
  return slabs * r->s.slab_units;
}

/* No unit is in two blocks, holders are as recorded, and the allocator's audit finds
 * nothing. */
static inline void rig_check(struct rig *r)
{
  uint32_t used = 0, counted = 0;
  uint8_t *taken = calloc(r->n_units, 1);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    const struct rig_block *b = &r->blocks[i];
    uint32_t units = r->s.classes[b->kind].block_units;
    assert_true(b->unit + units <= r->n_units);
    for (uint32_t u = 0; u < units; u++)
      assert_int_equal(taken[b->unit + u]++, 0);
    assert_int_equal(lls_pol_slabs_holders(&r->s, b->unit), b->holders);
    used++;
  }
  for (uint32_t i = 0; i < r->s.n_classes; i++)
    counted += r->s.classes[i].n_used;
  assert_int_equal(used, counted);
  if (rig_audit(r) == NULL)
    fail_msg("the audit fails");
  free(taken);
}

static inline void rig_hand_over(struct rig *a, struct rig *b)
{
  struct lls_pol_state_walk count = {0}, out = {0}, in = {0};
  lls_pol_slabs_pass(&a->s, &count);
  out.out = malloc(count.done);
  lls_pol_slabs_pass(&a->s, &out);
  in.in = out.out;
  in.bytes = count.done;
  lls_pol_slabs_pass(&b->s, &in);
  assert_int_equal(in.done, count.done);
  assert_false(lls_pol_state_is_torn(&in));
  free(out.out);
}

#endif
