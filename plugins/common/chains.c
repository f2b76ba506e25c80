/* SPDX-License-Identifier: Apache-2.0 */
/* See chains.h. */
#include "chains.h"

#include <llmserve/policy/check.h>

#include <stdlib.h>

#define MOST_BLOCKS 32 /* of a slab: bits of `used` */

static void set(struct chains *s, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(s->journal, where, value);
}

static uint32_t all_of(const struct chains *s, uint32_t size)
{
  return UINT32_MAX >> (MOST_BLOCKS - s->blocks[size]);
}

static uint32_t count_of(uint32_t bits)
{
  return (uint32_t)__builtin_popcount(bits);
}

/* ---- life -------------------------------------------------------------------------- */

/* A slab is as many of the larger blocks as leave least of it unused by smaller ones. */
static uint32_t blocks_per_slab(uint32_t large, uint32_t small)
{
  uint32_t best = 1;
  for (uint32_t n = 1; small > 0 && n * large / small <= MOST_BLOCKS && n <= 16; n++)
    if ((uint64_t)(n * large % small) * best < (uint64_t)(best * large % small) * n)
      best = n;
  return best;
}

int chains_init(struct chains *s, struct lls_pol_journal *journal, uint32_t n_units,
                const uint32_t units[CHAINS_SIZES], bool chained)
{
  s->journal = journal;
  s->chained = chained;
  s->n_sizes = units[1] > 0 ? 2 : 1;
  s->blocks[0] = blocks_per_slab(units[0], units[1]);
  s->slab_units = s->blocks[0] * units[0];
  for (uint32_t i = 0; i < s->n_sizes; i++) {
    s->units[i] = units[i];
    s->blocks[i] = s->slab_units / units[i];
  }
  s->n_slabs = n_units / s->slab_units;
  s->slabs = (struct chains_slab *)calloc(s->n_slabs + (size_t)1, sizeof *s->slabs);
  s->marks = (uint32_t *)calloc(s->n_slabs + (size_t)1, sizeof *s->marks);
  return s->slabs != NULL && s->marks != NULL ? 0 : -ENOMEM;
}

void chains_free(struct chains *s)
{
  free(s->slabs);
  free(s->marks);
}

void chains_make_empty(struct chains *s)
{
  for (uint32_t i = 0; i < s->n_slabs; i++) {
    struct chains_slab empty = {LLS_POL_NIL, 0, LLS_POL_NIL, LLS_POL_NIL};
    empty.next = i + 1 < s->n_slabs ? i + 1 : LLS_POL_NIL;
    s->slabs[i] = empty;
  }
  s->free_first = s->n_slabs > 0 ? 0 : LLS_POL_NIL;
  s->n_free = s->n_slabs;
  for (uint32_t i = 0; i < CHAINS_SIZES; i++) {
    s->partial[i] = LLS_POL_NIL;
    s->room[i] = 0;
  }
}

/* ---- slabs with room --------------------------------------------------------------- */

static void put_in(struct chains *s, uint32_t slab)
{
  struct chains_slab *it = &s->slabs[slab];
  uint32_t *first = &s->partial[it->size];
  if (s->chained)
    return;
  if (*first != LLS_POL_NIL)
    set(s, &s->slabs[*first].previous, slab);
  set(s, &it->next, *first);
  set(s, &it->previous, LLS_POL_NIL);
  set(s, first, slab);
}

static void take_out(struct chains *s, uint32_t slab)
{
  const struct chains_slab *it = &s->slabs[slab];
  if (s->chained)
    return;
  if (it->previous == LLS_POL_NIL)
    set(s, &s->partial[it->size], it->next);
  else
    set(s, &s->slabs[it->previous].next, it->next);
  if (it->next != LLS_POL_NIL)
    set(s, &s->slabs[it->next].previous, it->previous);
}

/* ---- blocks ------------------------------------------------------------------------ */

bool chains_go_on(const struct chains *s, uint32_t size, uint32_t after)
{
  if (after == LLS_POL_NIL)
    return false;
  const struct chains_slab *slab = &s->slabs[after / s->slab_units];
  return slab->size == size && slab->used != all_of(s, size);
}

uint32_t chains_slabs_for(const struct chains *s, uint32_t size, uint32_t n,
                          uint32_t after)
{
  uint32_t room = s->chained ? 0 : s->room[size];
  if (s->chained && chains_go_on(s, size, after))
    room = s->blocks[size] - count_of(s->slabs[after / s->slab_units].used);
  return n > room ? (n - room + s->blocks[size] - 1) / s->blocks[size] : 0;
}

static uint32_t open_slab(struct chains *s, uint32_t size)
{
  uint32_t slab = s->free_first;
  LLS_POL_CHECK(s->n_free > 0 && slab < s->n_slabs && s->slabs[slab].used == 0);
  set(s, &s->free_first, s->slabs[slab].next);
  set(s, &s->n_free, s->n_free - 1);
  set(s, &s->slabs[slab].size, size);
  set(s, &s->room[size], s->room[size] + s->blocks[size]);
  put_in(s, slab);
  return slab;
}

/* Takes block `i` of a slab. */
static uint32_t take_block(struct chains *s, uint32_t slab, uint32_t i)
{
  struct chains_slab *it = &s->slabs[slab];
  set(s, &it->used, it->used | UINT32_C(1) << i);
  set(s, &s->room[it->size], s->room[it->size] - 1);
  if (it->used == all_of(s, it->size))
    take_out(s, slab);
  return slab * s->slab_units + i * s->units[it->size];
}

uint32_t chains_take(struct chains *s, uint32_t size, uint32_t after)
{
  uint32_t slab = s->chained ? LLS_POL_NIL : s->partial[size];
  if (s->chained && chains_go_on(s, size, after))
    slab = after / s->slab_units;
  if (slab == LLS_POL_NIL)
    slab = open_slab(s, size);
  return take_block(s, slab, (uint32_t)__builtin_ctz(~s->slabs[slab].used));
}

void chains_give_back(struct chains *s, uint32_t unit)
{
  uint32_t slab = unit / s->slab_units;
  struct chains_slab *it = &s->slabs[slab];
  LLS_POL_CHECK(slab < s->n_slabs && it->size < s->n_sizes);
  uint32_t size = it->size, bit = UINT32_C(1) << unit % s->slab_units / s->units[size];
  LLS_POL_CHECK((it->used & bit) != 0);
  if (it->used == all_of(s, size))
    put_in(s, slab);
  set(s, &it->used, it->used & ~bit);
  set(s, &s->room[size], s->room[size] + 1);
  if (it->used != 0)
    return;
  take_out(s, slab);
  set(s, &s->room[size], s->room[size] - s->blocks[size]);
  set(s, &it->size, LLS_POL_NIL);
  set(s, &it->next, s->free_first);
  set(s, &s->free_first, slab);
  set(s, &s->n_free, s->n_free + 1);
}

bool chains_has(const struct chains *s, uint32_t size, uint32_t unit)
{
  uint32_t slab = unit / s->slab_units, at = unit % s->slab_units;
  if (slab >= s->n_slabs || s->slabs[slab].size != size || at % s->units[size] != 0)
    return false;
  return s->slabs[slab].used >> at / s->units[size] & 1;
}

/* Takes a slab out of the free ones, wherever it is among them. */
static void open_this(struct chains *s, uint32_t slab, uint32_t size)
{
  uint32_t *link = &s->free_first;
  while (*link != slab)
    link = &s->slabs[*link].next;
  set(s, link, s->slabs[slab].next);
  set(s, &s->free_first, s->free_first);
  set(s, &s->n_free, s->n_free - 1);
  set(s, &s->slabs[slab].size, size);
  set(s, &s->room[size], s->room[size] + s->blocks[size]);
  put_in(s, slab);
}

bool chains_claim(struct chains *s, uint32_t size, uint32_t unit)
{
  uint32_t slab = unit / s->slab_units, at = unit % s->slab_units;
  if (slab >= s->n_slabs || size >= s->n_sizes || at % s->units[size] != 0 ||
      at / s->units[size] >= s->blocks[size])
    return false;
  if (s->slabs[slab].size == LLS_POL_NIL)
    open_this(s, slab, size);
  if (s->slabs[slab].size != size || chains_has(s, size, unit))
    return false;
  take_block(s, slab, at / s->units[size]);
  return true;
}

uint32_t chains_free_units(const struct chains *s)
{
  uint32_t units = s->n_free * s->slab_units;
  for (uint32_t i = 0; i < s->n_sizes; i++)
    units += s->room[i] * s->units[i];
  return units;
}

/* ---- state and audit --------------------------------------------------------------- */

void chains_pass(struct chains *s, struct lls_pol_state_walk *w)
{
  lls_pol_state_pass(w, &s->free_first, sizeof s->free_first);
  lls_pol_state_pass(w, &s->n_free, sizeof s->n_free);
  lls_pol_state_pass(w, s->partial, sizeof s->partial);
  lls_pol_state_pass(w, s->room, sizeof s->room);
  lls_pol_state_pass(w, s->slabs, s->n_slabs * sizeof *s->slabs);
}

/* Marks the slabs of a list; how many there are. */
static uint32_t walk(struct chains *s, struct lls_pol_report *a, const char *name,
                     uint32_t first)
{
  uint32_t n = 0;
  lls_pol_report_say(a, "%s:", name);
  for (uint32_t i = first; i != LLS_POL_NIL; i = s->slabs[i].next, n++) {
    if (!lls_pol_report_check(a, i < s->n_slabs, "list of slabs leads outside", i) ||
        !lls_pol_report_check(a, s->marks[i]++ == 0, "a slab on two lists", i))
      break;
    lls_pol_report_say(a, " %" PRIu32, i);
  }
  lls_pol_report_end_line(a);
  return n;
}

static void audit_slab(struct chains *s, struct lls_pol_report *a, uint32_t i,
                       uint32_t room[CHAINS_SIZES])
{
  const struct chains_slab *it = &s->slabs[i];
  bool free = it->size == LLS_POL_NIL;
  if (!lls_pol_report_check(a, free || it->size < s->n_sizes, "no such size", i))
    return;
  uint32_t all = free ? 0 : all_of(s, it->size);
  bool listed = free || (!s->chained && it->used != all);
  lls_pol_report_check(a, (it->used & ~all) == 0 && (it->used != 0) == !free,
                       "blocks that a slab has not", i);
  lls_pol_report_check(a, (s->marks[i] != 0) == listed, "a slab lost", i);
  if (!free)
    room[it->size] += s->blocks[it->size] - count_of(it->used);
}

void chains_audit(struct chains *s, struct lls_pol_report *a)
{
  uint32_t room[CHAINS_SIZES] = {0, 0};
  for (uint32_t i = 0; i < s->n_slabs; i++)
    s->marks[i] = 0;
  lls_pol_report_check(a, walk(s, a, "free slabs", s->free_first) == s->n_free,
                       "free slabs miscounted", s->n_free);
  for (uint32_t i = 0; i < s->n_sizes; i++)
    walk(s, a, "slabs with room", s->partial[i]);
  for (uint32_t i = 0; i < s->n_slabs; i++)
    audit_slab(s, a, i, room);
  for (uint32_t i = 0; i < s->n_sizes; i++)
    lls_pol_report_check(a, room[i] == s->room[i], "room in slabs miscounted", i);
}
