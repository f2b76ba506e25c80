/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a block, and making room where no slab is free: which class gives something up,
 * which of its slabs is emptied, and where the blocks of that slab go. */
#include "slabs_inside.h"

/* Is number a older than b? They may wrap around. */
static bool is_older(uint32_t a, uint32_t b)
{
  return (int32_t)(a - b) < 0;
}

static uint32_t victim_of(const struct lls_pol_slabs *s, uint32_t kind, uint32_t *since)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  return c->n_used > c->n_held ? s->owner.victim(s->owner.context, kind, since)
                               : LLS_POL_NIL;
}

/* Returns what it takes to empty a slab: the blocks to copy, those without holders too;
 * where blocks cannot be copied, the holders, which must not exist. */
static uint64_t cost_of(const struct lls_pol_slabs *s, const struct lls_pol_slab *slab)
{
  uint64_t used = slab->n_used, held = slab->n_held;
  return s->owner.moved != NULL ? used << 32 | held : held << 32 | used;
}

/* Returns the slab of the class that costs least, of those whose blocks may move;
 * LLS_POL_NIL if there is none. */
static uint32_t emptiest(const struct lls_pol_slabs *s, uint32_t kind)
{
  uint32_t best = LLS_POL_NIL;
  for (uint32_t x = 0; x < s->n_slabs; x++)
    if (s->slabs[x].kind == kind && s->pins[x] == 0 &&
        (best == LLS_POL_NIL || cost_of(s, &s->slabs[x]) < cost_of(s, &s->slabs[best])))
      best = x;
  return best;
}

/* Can the class do with one slab less? */
static bool has_spare(const struct lls_pol_slabs *s, uint32_t kind)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  uint32_t least = c->n_slabs > 0 ? emptiest(s, kind) : LLS_POL_NIL;
  if (least == LLS_POL_NIL)
    return false;
  return s->owner.moved != NULL
             ? (uint64_t)c->n_slabs * c->per_slab - c->n_held >= c->per_slab
             : s->slabs[least].n_held == 0;
}

/* Returns the class that gives room: the one whose victim was kept longest; its own
 * before others, and before one that has no victim but holes; LLS_POL_NIL if there is
 * none. */
static uint32_t giver(const struct lls_pol_slabs *s, uint32_t kind)
{
  uint32_t since = 0, oldest = 0, best = LLS_POL_NIL;
  bool has_victim = victim_of(s, kind, &oldest) != LLS_POL_NIL;
  if (has_victim)
    best = kind;
  if (s->owner.moved != NULL && !s->may_move)
    return best;
  for (uint32_t other = 0; other < s->n_classes; other++) {
    if (other == kind)
      continue;
    bool gives = victim_of(s, other, &since) != LLS_POL_NIL;
    bool better = gives && (!has_victim || is_older(since, oldest));
    /* has_spare looks at all slabs: asked last, since a step may copy many blocks */
    if ((best != LLS_POL_NIL && !better) || !has_spare(s, other))
      continue;
    best = other;
    has_victim |= gives;
    oldest = since;
  }
  return best;
}

/* Returns the blocks of the slab's class that are free in other slabs. */
static uint32_t free_elsewhere(const struct lls_pol_slabs *s, uint32_t x)
{
  const struct lls_pol_slab *slab = &s->slabs[x];
  const struct lls_pol_slab_class *c = &s->classes[slab->kind];
  return (c->n_slabs - 1) * c->per_slab - (c->n_used - slab->n_used);
}

static bool can_note_moves(const struct lls_pol_slabs *s, uint32_t x)
{
  const struct lls_pol_slab_class *c = &s->classes[s->slabs[x].kind];
  uint64_t changes = SLABS_CHANGES;
  for (uint32_t i = 0; i < c->per_slab; i++) {
    uint32_t holders = s->holders[x * s->blocks_per_slab + i];
    if (holders != LLS_POL_NIL)
      changes += 2 * SLABS_CHANGES + LLS_POL_MOVED_CHANGES * (1 + (uint64_t)holders);
  }
  return lls_pol_journal_has_room(s->journal, changes);
}

/* Returns the block in another slab that the i-th one of slab x becomes; its holders go
 * along. */
static uint32_t move_block(struct lls_pol_slabs *s, uint32_t x, uint32_t i)
{
  struct lls_pol_slab *slab = &s->slabs[x];
  struct lls_pol_slab_class *c = &s->classes[slab->kind];
  uint32_t *holders = &s->holders[x * s->blocks_per_slab + i];
  if (*holders == LLS_POL_NIL)
    return LLS_POL_NIL;
  uint32_t to = slabs_try(s, slab->kind), new_slab = to / s->slab_units;
  LLS_POL_CHECK(to != LLS_POL_NIL && new_slab != x);
  bool was_held = *holders > 0;
  slabs_set(s, &s->holders[lls_pol_slabs_number(s, to)], *holders);
  slabs_set(s, holders, LLS_POL_NIL);
  slabs_set(s, &slab->n_used, slab->n_used - 1);
  slabs_set(s, &c->n_used, c->n_used - 1);
  /* slabs_try has counted the moved block once more */
  slabs_set(s, &c->n_held, c->n_held - 1);
  if (was_held)
    slabs_set(s, &slab->n_held, slab->n_held - 1);
  else
    slabs_set(s, &s->slabs[new_slab].n_held, s->slabs[new_slab].n_held - 1);
  return to;
}

static bool move_all(struct lls_pol_slabs *s, uint32_t x)
{
  const struct lls_pol_slab_class *c = &s->classes[s->slabs[x].kind];
  if (!can_note_moves(s, x))
    return false;
  slabs_set(s, &s->n_moved, s->n_moved + s->slabs[x].n_used * c->block_units);
  slabs_unlist(s, x);
  s->closing = x;
  for (uint32_t i = 0; i < c->per_slab; i++)
    s->to[i] = move_block(s, x, i);
  s->closing = LLS_POL_NIL;
  bool moved = s->owner.moved(s->owner.context, x * s->slab_units, c->block_units, s->to,
                              c->per_slab);
  slabs_close(s, x);
  return moved;
}

/* How many slabs' worth of holes a class may have before blocks are copied into them:
 * kept blocks leave in whole slabs then, but for the ends of sequences. */
static uint32_t hole_slabs(const struct lls_pol_slabs *s)
{
  return 1 + s->n_slabs / 100;
}

/* Drops victims of the class until a slab is free by this alone, or until there are holes
 * enough; then moves the slab with the fewest blocks. */
static bool empty_by_moves(struct lls_pol_slabs *s, uint32_t kind)
{
  uint32_t x = emptiest(s, kind), since = 0;
  uint32_t holes = hole_slabs(s) * s->classes[kind].per_slab;
  while (s->n_free_slabs == 0 && s->slabs[x].n_used + holes > free_elsewhere(s, x)) {
    uint32_t unit = victim_of(s, kind, &since);
    if (unit == LLS_POL_NIL && s->slabs[x].n_used <= free_elsewhere(s, x))
      break;
    if (unit == LLS_POL_NIL || !s->owner.drop(s->owner.context, unit))
      return false;
  }
  return s->n_free_slabs > 0 || move_all(s, emptiest(s, kind));
}

/* No block of slab x has a holder. */
static bool empty_in_place(struct lls_pol_slabs *s, uint32_t x)
{
  const struct lls_pol_slab_class *c = &s->classes[s->slabs[x].kind];
  for (uint32_t i = 0; i < c->per_slab && s->n_free_slabs == 0; i++)
    if (s->holders[x * s->blocks_per_slab + i] != LLS_POL_NIL &&
        !s->owner.drop(s->owner.context, x * s->slab_units + i * c->block_units))
      return false;
  return s->n_free_slabs > 0;
}

/* The class's victim leaves, and its slab, which has no other block, keeps its class: a
 * transaction that begins prompts takes hundreds of blocks so, and to free such a slab
 * and to open it again are 23 changes in the journal in place of 3. */
static uint32_t take_over(struct lls_pol_slabs *s, uint32_t kind)
{
  uint32_t since = 0, unit = victim_of(s, kind, &since), x = unit / s->slab_units;
  s->closing = x; /* lls_pol_slabs_free leaves it as it is */
  bool has_left = s->owner.drop(s->owner.context, unit);
  s->closing = LLS_POL_NIL;
  if (!has_left)
    return LLS_POL_NIL;
  lls_pol_slabs_hold(s, unit);
  return unit;
}

/* Drops a kept block of the class, or empties a slab of another one. True: slabs_try
 * finds a block now. */
static bool make_room(struct lls_pol_slabs *s, uint32_t kind, uint32_t from)
{
  uint32_t since = 0;
  if (from == kind)
    return s->owner.drop(s->owner.context, victim_of(s, kind, &since));
  return s->owner.moved != NULL ? empty_by_moves(s, from)
                                : empty_in_place(s, emptiest(s, from));
}

uint32_t lls_pol_slabs_take(struct lls_pol_slabs *s, uint32_t kind)
{
  LLS_POL_CHECK(kind < s->n_classes);
  if (!lls_pol_journal_has_room(s->journal, SLABS_CHANGES))
    return LLS_POL_NIL;
  uint32_t unit = slabs_try(s, kind);
  if (unit != LLS_POL_NIL)
    return unit;
  uint32_t from = giver(s, kind);
  if (from == kind && s->classes[kind].per_slab == 1)
    return take_over(s, kind);
  return from != LLS_POL_NIL && make_room(s, kind, from) ? slabs_try(s, kind)
                                                         : LLS_POL_NIL;
}
