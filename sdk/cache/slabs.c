/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of several sizes from slabs of one size; see slabs.h. slabs_empty.c takes
 * them, and makes room. */
#include "slabs_inside.h"

#include <llmserve/policy/number.h>

#include "table.h"

#include <stdlib.h>
#include <string.h>

#define MOST_MULTIPLE 8 /* most blocks of the largest class in a slab */

/* ---- life ------------------------------------------------------------------------- */

/* Returns the units that are of no use with slabs of that size: behind the last slab; of
 * each slab, to the class that loses most; and a slab for each class with several blocks
 * in one, which may be in part unused. */
static uint64_t loss_of(uint32_t n_units, uint32_t slab_units,
                        const uint32_t *block_units, uint32_t n)
{
  uint32_t of_slab = 0, lossy = 0;
  for (uint32_t i = 0; i < n; i++) {
    of_slab = lls_pol_max(of_slab, slab_units % block_units[i]);
    lossy += slab_units / block_units[i] > 1;
  }
  return n_units % slab_units + (uint64_t)(n_units / slab_units) * of_slab +
         (uint64_t)lossy * slab_units;
}

/* Returns the multiple of the largest block that loses least. */
static uint32_t slab_units_for(uint32_t n_units, const uint32_t *block_units, uint32_t n)
{
  uint32_t largest = 0;
  for (uint32_t i = 0; i < n; i++)
    largest = lls_pol_max(largest, block_units[i]);
  uint32_t best = largest;
  for (uint32_t m = 2; n > 1 && m <= MOST_MULTIPLE && m <= n_units / largest; m++)
    if (loss_of(n_units, m * largest, block_units, n) <
        loss_of(n_units, best, block_units, n))
      best = m * largest;
  return best;
}

static void size_up(struct lls_pol_slabs *s, uint32_t n_units,
                    const uint32_t *block_units, uint32_t n_classes)
{
  s->slab_units = slab_units_for(n_units, block_units, n_classes);
  s->n_slabs = n_units / s->slab_units;
  s->n_classes = n_classes;
  s->blocks_per_slab = s->n_lists = s->n_words = 0;
  for (uint32_t i = 0; i < n_classes; i++) {
    uint32_t per_slab = s->slab_units / block_units[i];
    s->classes[i] = (struct lls_pol_slab_class){.block_units = block_units[i],
                                                .per_slab = per_slab,
                                                .first_list = s->n_lists,
                                                .first_word = s->n_words};
    s->n_lists += per_slab;
    s->n_words += (per_slab + 31) / 32;
    s->blocks_per_slab = lls_pol_max(s->blocks_per_slab, per_slab);
  }
}

int lls_pol_slabs_init(struct lls_pol_slabs *s, uint32_t n_units,
                       const uint32_t *block_units, uint32_t n_classes)
{
  if (n_classes == 0 || n_classes > LLS_POL_MAX_CLASSES)
    return -EINVAL;
  for (uint32_t i = 0; i < n_classes; i++)
    if (block_units[i] == 0 || block_units[i] > n_units)
      return -EINVAL;
  size_up(s, n_units, block_units, n_classes);
  size_t blocks = (size_t)s->n_slabs * s->blocks_per_slab;
  if (blocks >= LLS_POL_NIL)
    return -EINVAL;
  s->slabs = table_calloc(s->n_slabs, sizeof *s->slabs);
  s->holders = table_calloc(blocks, sizeof *s->holders);
  s->next = table_calloc(blocks, sizeof *s->next);
  s->lists = calloc(s->n_lists, sizeof *s->lists);
  s->words = calloc(s->n_words, sizeof *s->words);
  s->marks = calloc(s->n_slabs, sizeof *s->marks);
  s->pins = calloc(s->n_slabs, sizeof *s->pins);
  s->to = calloc(s->blocks_per_slab, sizeof *s->to);
  bool done = s->slabs && s->holders && s->next && s->lists && s->words && s->marks;
  return done && s->pins && s->to ? 0 : -ENOMEM;
}

void lls_pol_slabs_destroy(struct lls_pol_slabs *s)
{
  free(s->slabs);
  free(s->holders);
  free(s->next);
  free(s->lists);
  free(s->words);
  free(s->marks);
  free(s->pins);
  free(s->to);
}

void lls_pol_slabs_make_empty(struct lls_pol_slabs *s)
{
  for (uint32_t x = 0; x < s->n_slabs; x++)
    s->slabs[x].kind = LLS_POL_NIL;
  memset(s->holders, 0xff, (size_t)lls_pol_slabs_blocks(s) * sizeof *s->holders);
  memset(s->pins, 0, s->n_slabs * sizeof *s->pins);
  lls_pol_slabs_settle(s);
}

void lls_pol_slabs_begin(struct lls_pol_slabs *s)
{
  s->n_moved = 0;
  s->may_move = true;
}

void lls_pol_slabs_verb(struct lls_pol_slabs *s)
{
  s->may_move = s->n_moved < s->most_moved;
}

/* ---- lists ------------------------------------------------------------------------ */

static uint32_t free_blocks(const struct lls_pol_slabs *s, uint32_t x)
{
  return s->classes[s->slabs[x].kind].per_slab - s->slabs[x].n_used;
}

/* Returns the list of slabs of a class with n_free free blocks, 1 or more. */
static uint32_t *list_of(struct lls_pol_slabs *s, uint32_t kind, uint32_t n_free)
{
  return &s->lists[s->classes[kind].first_list + n_free - 1];
}

static void mark_list(struct lls_pol_slabs *s, uint32_t kind, uint32_t n_free,
                      bool is_there)
{
  uint32_t *word = &s->words[s->classes[kind].first_word + (n_free - 1) / 32];
  uint32_t bit = UINT32_C(1) << (n_free - 1) % 32;
  slabs_set(s, word, is_there ? *word | bit : *word & ~bit);
}

/* A slab is on a list while it has both free and taken blocks. */
static bool is_listed(const struct lls_pol_slabs *s, uint32_t x)
{
  return x != s->closing && s->slabs[x].n_used > 0 && free_blocks(s, x) > 0;
}

/* Puts slab x before the others of a list, or takes it out. */
static void push(struct lls_pol_slabs *s, uint32_t *head, uint32_t x)
{
  slabs_set(s, &s->slabs[x].previous, LLS_POL_NIL);
  slabs_set(s, &s->slabs[x].next, *head);
  if (*head != LLS_POL_NIL)
    slabs_set(s, &s->slabs[*head].previous, x);
  slabs_set(s, head, x);
}

static void pull(struct lls_pol_slabs *s, uint32_t *head, uint32_t x)
{
  const struct lls_pol_slab *slab = &s->slabs[x];
  slabs_set(s, slab->previous == LLS_POL_NIL ? head : &s->slabs[slab->previous].next,
            slab->next);
  if (slab->next != LLS_POL_NIL)
    slabs_set(s, &s->slabs[slab->next].previous, slab->previous);
}

void slabs_unlist(struct lls_pol_slabs *s, uint32_t x)
{
  if (!is_listed(s, x))
    return;
  uint32_t kind = s->slabs[x].kind, n_free = free_blocks(s, x);
  uint32_t *head = list_of(s, kind, n_free);
  pull(s, head, x);
  if (*head == LLS_POL_NIL)
    mark_list(s, kind, n_free, false);
}

static void list(struct lls_pol_slabs *s, uint32_t x)
{
  if (!is_listed(s, x))
    return;
  uint32_t kind = s->slabs[x].kind, n_free = free_blocks(s, x);
  uint32_t *head = list_of(s, kind, n_free);
  if (*head == LLS_POL_NIL)
    mark_list(s, kind, n_free, true);
  push(s, head, x);
}

/* Returns the slab of the class with fewest free blocks, at least one; or
 * LLS_POL_NIL. */
static uint32_t fullest(const struct lls_pol_slabs *s, uint32_t kind)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  for (uint32_t w = 0; w < (c->per_slab + 31) / 32; w++) {
    uint32_t bits = s->words[c->first_word + w];
    if (bits != 0)
      return s->lists[c->first_list + 32 * w + (uint32_t)__builtin_ctz(bits)];
  }
  return LLS_POL_NIL;
}

/* ---- slabs ------------------------------------------------------------------------ */

/* Takes slab x from the free ones, for blocks of the class. */
static void open_slab(struct lls_pol_slabs *s, uint32_t x, uint32_t kind)
{
  struct lls_pol_slab *slab = &s->slabs[x];
  pull(s, &s->free_slab, x);
  slabs_set(s, &s->n_free_slabs, s->n_free_slabs - 1);
  slabs_set(s, &slab->kind, kind);
  slabs_set(s, &s->classes[kind].n_slabs, s->classes[kind].n_slabs + 1);
}

void slabs_close(struct lls_pol_slabs *s, uint32_t x)
{
  struct lls_pol_slab *slab = &s->slabs[x];
  struct lls_pol_slab_class *c = &s->classes[slab->kind];
  slabs_set(s, &c->n_slabs, c->n_slabs - 1);
  slabs_set(s, &slab->kind, LLS_POL_NIL);
  slabs_set(s, &slab->first_free, LLS_POL_NIL);
  slabs_set(s, &slab->n_fresh, 0);
  push(s, &s->free_slab, x);
  slabs_set(s, &s->n_free_slabs, s->n_free_slabs + 1);
}

/* ---- blocks ----------------------------------------------------------------------- */

uint32_t lls_pol_slabs_class(const struct lls_pol_slabs *s, uint32_t block_units)
{
  for (uint32_t i = 0; i < s->n_classes; i++)
    if (s->classes[i].block_units == block_units)
      return i;
  return LLS_POL_NIL;
}

uint32_t lls_pol_slabs_number(const struct lls_pol_slabs *s, uint32_t unit)
{
  uint32_t x = unit / s->slab_units;
  LLS_POL_CHECK(x < s->n_slabs && s->slabs[x].kind < s->n_classes);
  if (s->blocks_per_slab == 1) /* one class: asked for often, by every info */
    return x;
  return x * s->blocks_per_slab +
         unit % s->slab_units / s->classes[s->slabs[x].kind].block_units;
}

static void count(struct lls_pol_slabs *s, uint32_t *of_slab, uint32_t *of_class, int by)
{
  slabs_set(s, of_slab, *of_slab + (uint32_t)by);
  slabs_set(s, of_class, *of_class + (uint32_t)by);
}

static uint32_t pop_block(struct lls_pol_slabs *s, uint32_t x)
{
  struct lls_pol_slab *slab = &s->slabs[x];
  uint32_t i = slab->first_free;
  if (i == LLS_POL_NIL) {
    i = slab->n_fresh;
    slabs_set(s, &slab->n_fresh, i + 1);
  } else {
    slabs_set(s, &slab->first_free, s->next[x * s->blocks_per_slab + i]);
  }
  return i;
}

/* Takes a block of slab x, which is of the class and has free ones. */
static uint32_t take_from(struct lls_pol_slabs *s, uint32_t x, uint32_t kind)
{
  struct lls_pol_slab_class *c = &s->classes[kind];
  slabs_unlist(s, x);
  uint32_t i = pop_block(s, x);
  count(s, &s->slabs[x].n_used, &c->n_used, 1);
  count(s, &s->slabs[x].n_held, &c->n_held, 1);
  slabs_set(s, &s->holders[x * s->blocks_per_slab + i], 1);
  list(s, x);
  return x * s->slab_units + i * c->block_units;
}

uint32_t slabs_try(struct lls_pol_slabs *s, uint32_t kind)
{
  uint32_t x = fullest(s, kind);
  if (x != LLS_POL_NIL)
    return take_from(s, x, kind);
  x = s->free_slab;
  if (x == LLS_POL_NIL)
    return x;
  open_slab(s, x, kind);
  return take_from(s, x, kind);
}

bool lls_pol_slabs_is_free(const struct lls_pol_slabs *s, uint32_t slab)
{
  return slab < s->n_slabs && s->slabs[slab].kind == LLS_POL_NIL;
}

uint32_t lls_pol_slabs_take_slab(struct lls_pol_slabs *s, uint32_t slab)
{
  LLS_POL_CHECK(s->blocks_per_slab == 1 && lls_pol_slabs_is_free(s, slab));
  open_slab(s, slab, 0);
  return take_from(s, slab, 0);
}

void lls_pol_slabs_hold(struct lls_pol_slabs *s, uint32_t unit)
{
  struct lls_pol_slab *slab = &s->slabs[unit / s->slab_units];
  uint32_t *holders = &s->holders[lls_pol_slabs_number(s, unit)];
  LLS_POL_CHECK(*holders != LLS_POL_NIL);
  if (*holders == 0)
    count(s, &slab->n_held, &s->classes[slab->kind].n_held, 1);
  slabs_set(s, holders, *holders + 1);
}

bool lls_pol_slabs_let_go(struct lls_pol_slabs *s, uint32_t unit)
{
  struct lls_pol_slab *slab = &s->slabs[unit / s->slab_units];
  uint32_t *holders = &s->holders[lls_pol_slabs_number(s, unit)];
  LLS_POL_CHECK(*holders > 0 && *holders != LLS_POL_NIL);
  slabs_set(s, holders, *holders - 1);
  if (*holders > 0)
    return false;
  count(s, &slab->n_held, &s->classes[slab->kind].n_held, -1);
  return true;
}

void lls_pol_slabs_free(struct lls_pol_slabs *s, uint32_t unit)
{
  uint32_t x = unit / s->slab_units, number = lls_pol_slabs_number(s, unit);
  struct lls_pol_slab *slab = &s->slabs[x];
  LLS_POL_CHECK(s->holders[number] == 0);
  if (x == s->closing) /* its one block gets another holder (slabs_empty.c) */
    return;
  slabs_unlist(s, x);
  slabs_set(s, &s->holders[number], LLS_POL_NIL);
  slabs_set(s, &s->next[number], slab->first_free);
  slabs_set(s, &slab->first_free, number - x * s->blocks_per_slab);
  count(s, &slab->n_used, &s->classes[slab->kind].n_used, -1);
  if (slab->n_used > 0)
    list(s, x);
  else
    slabs_close(s, x);
}

uint32_t lls_pol_slabs_holders(const struct lls_pol_slabs *s, uint32_t unit)
{
  return s->holders[lls_pol_slabs_number(s, unit)];
}

bool lls_pol_slabs_is_taken(const struct lls_pol_slabs *s, uint32_t unit)
{
  uint32_t x = unit / s->slab_units, at = unit % s->slab_units;
  if (x >= s->n_slabs || s->slabs[x].kind >= s->n_classes)
    return false;
  const struct lls_pol_slab_class *c = &s->classes[s->slabs[x].kind];
  return at % c->block_units == 0 && at / c->block_units < c->per_slab &&
         lls_pol_slabs_holders(s, unit) != LLS_POL_NIL;
}

/* ---- questions -------------------------------------------------------------------- */

/* Slabs that so many blocks of the class fill, the last one perhaps in part. */
static uint64_t slabs_for(const struct lls_pol_slab_class *c, uint64_t blocks)
{
  return (blocks + c->per_slab - 1) / c->per_slab;
}

bool lls_pol_slabs_fits(const struct lls_pol_slabs *s, const uint32_t *blocks)
{
  uint64_t slabs = 0;
  for (uint32_t i = 0; i < s->n_classes; i++)
    slabs += slabs_for(&s->classes[i], (uint64_t)s->classes[i].n_held + blocks[i]);
  return slabs + s->spare <= s->n_slabs;
}

bool lls_pol_slabs_fits_alone(const struct lls_pol_slabs *s, const uint32_t *blocks)
{
  uint64_t slabs = 0;
  for (uint32_t i = 0; i < s->n_classes; i++)
    slabs += slabs_for(&s->classes[i], blocks[i]);
  return slabs + s->spare <= s->n_slabs;
}

bool lls_pol_slabs_has_free(const struct lls_pol_slabs *s, uint32_t kind)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  return s->n_free_slabs > 0 || c->n_used < c->n_slabs * c->per_slab;
}

void lls_pol_slabs_count(const struct lls_pol_slabs *s, uint32_t *n_free, uint32_t *kept)
{
  *n_free = lls_pol_slabs_total(s);
  *kept = 0;
  for (uint32_t i = 0; i < s->n_classes; i++) {
    const struct lls_pol_slab_class *c = &s->classes[i];
    *n_free -= c->n_used * c->block_units;
    *kept += (c->n_used - c->n_held) * c->block_units;
  }
}

uint32_t lls_pol_slabs_total(const struct lls_pol_slabs *s)
{
  return s->n_slabs * s->slab_units;
}

uint32_t lls_pol_slabs_units(const struct lls_pol_slabs *s, uint32_t kind)
{
  return s->slab_units / s->classes[kind].per_slab;
}

/* Units of a slab that blocks of each class can take. */
static uint32_t usable_units(const struct lls_pol_slabs *s)
{
  uint32_t usable = s->slab_units;
  for (uint32_t i = 0; i < s->n_classes; i++)
    usable = lls_pol_min(usable, s->classes[i].per_slab * lls_pol_slabs_units(s, i));
  return usable;
}

/* With all holders in as few slabs as can be, `slabs` are free, and each class has a hole
 * of less than a slab. Whatever classes are asked for, no more of this is lost than a
 * slab for each class with several blocks in one; if holes are not counted, a slab less.
 * Both are true, so the larger is. */
static uint32_t units_left(const struct lls_pol_slabs *s, bool are_held)
{
  int64_t slabs = (int64_t)s->n_slabs - s->spare, holes = 0, usable = usable_units(s);
  int64_t lossy = 0;
  for (uint32_t i = 0; i < s->n_classes; i++) {
    const struct lls_pol_slab_class *c = &s->classes[i];
    uint32_t held = are_held ? c->n_held : 0;
    int64_t full = (int64_t)slabs_for(c, held);
    int64_t hole = (full * c->per_slab - held) * lls_pol_slabs_units(s, i);
    slabs -= full;
    lossy += c->per_slab > 1;
    holes += hole < usable ? hole : usable;
  }
  int64_t without = (slabs - (lossy > 0 ? lossy - 1 : 0)) * usable;
  int64_t units = (slabs - lossy) * usable + holes;
  units = units > without ? units : without;
  return units > 0 ? (uint32_t)units : 0;
}

uint32_t lls_pol_slabs_available(const struct lls_pol_slabs *s)
{
  return units_left(s, true);
}

uint32_t lls_pol_slabs_usable(const struct lls_pol_slabs *s)
{
  return units_left(s, false);
}

void lls_pol_slabs_pin(struct lls_pol_slabs *s, uint32_t unit)
{
  uint32_t *pins = &s->pins[unit / s->slab_units];
  slabs_set(s, pins, *pins + 1);
}

void lls_pol_slabs_unpin(struct lls_pol_slabs *s, uint32_t unit)
{
  uint32_t *pins = &s->pins[unit / s->slab_units];
  LLS_POL_CHECK(*pins > 0);
  slabs_set(s, pins, *pins - 1);
}

/* ---- an import -------------------------------------------------------------------- */

bool lls_pol_slabs_claim(struct lls_pol_slabs *s, uint32_t kind, uint32_t unit)
{
  const struct lls_pol_slab_class *c = &s->classes[kind];
  uint32_t x = unit / s->slab_units, at = unit % s->slab_units;
  if (x >= s->n_slabs || at % c->block_units != 0 || at / c->block_units >= c->per_slab)
    return false;
  struct lls_pol_slab *slab = &s->slabs[x];
  uint32_t *holders = &s->holders[x * s->blocks_per_slab + at / c->block_units];
  if ((slab->kind != LLS_POL_NIL && slab->kind != kind) || *holders != LLS_POL_NIL)
    return false;
  slab->kind = kind;
  *holders = 1;
  return true;
}

void lls_pol_slabs_unclaim(struct lls_pol_slabs *s, uint32_t unit)
{
  s->holders[lls_pol_slabs_number(s, unit)] = LLS_POL_NIL;
}

/* Counts a slab's blocks and stacks the free ones, the first on top. False: all blocks
 * are free. */
static bool settle_slab(struct lls_pol_slabs *s, uint32_t x)
{
  struct lls_pol_slab *slab = &s->slabs[x];
  struct lls_pol_slab_class *c = &s->classes[slab->kind];
  uint32_t first = x * s->blocks_per_slab;
  slab->n_used = slab->n_held = 0;
  slab->first_free = LLS_POL_NIL;
  slab->n_fresh = c->per_slab;
  for (uint32_t i = c->per_slab; i-- > 0;)
    if (s->holders[first + i] == LLS_POL_NIL) {
      s->next[first + i] = slab->first_free;
      slab->first_free = i;
    } else {
      slab->n_used++;
      slab->n_held += s->holders[first + i] > 0;
    }
  if (slab->n_used == 0)
    return false;
  c->n_slabs++;
  c->n_used += slab->n_used;
  c->n_held += slab->n_held;
  list(s, x);
  return true;
}

void lls_pol_slabs_settle(struct lls_pol_slabs *s)
{
  memset(s->lists, 0xff, s->n_lists * sizeof *s->lists);
  memset(s->words, 0, s->n_words * sizeof *s->words);
  for (uint32_t i = 0; i < s->n_classes; i++)
    s->classes[i].n_slabs = s->classes[i].n_used = s->classes[i].n_held = 0;
  s->free_slab = s->closing = LLS_POL_NIL;
  s->n_free_slabs = 0;
  lls_pol_slabs_begin(s);
  for (uint32_t x = s->n_slabs; x-- > 0;) {
    struct lls_pol_slab *slab = &s->slabs[x];
    if (slab->kind != LLS_POL_NIL && settle_slab(s, x))
      continue;
    *slab = (struct lls_pol_slab){.kind = LLS_POL_NIL, .first_free = LLS_POL_NIL};
    push(s, &s->free_slab, x);
    s->n_free_slabs++;
  }
}

void lls_pol_slabs_pass(struct lls_pol_slabs *s, struct lls_pol_state_walk *w)
{
  size_t blocks = lls_pol_slabs_blocks(s);
  lls_pol_state_pass(w, &s->free_slab, sizeof s->free_slab);
  lls_pol_state_pass(w, &s->n_free_slabs, sizeof s->n_free_slabs);
  for (uint32_t i = 0; i < s->n_classes; i++) {
    lls_pol_state_pass(w, &s->classes[i].n_slabs, sizeof s->classes[i].n_slabs);
    lls_pol_state_pass(w, &s->classes[i].n_used, sizeof s->classes[i].n_used);
    lls_pol_state_pass(w, &s->classes[i].n_held, sizeof s->classes[i].n_held);
  }
  lls_pol_state_pass(w, s->slabs, s->n_slabs * sizeof *s->slabs);
  lls_pol_state_pass(w, s->pins, s->n_slabs * sizeof *s->pins);
  lls_pol_state_pass(w, s->holders, blocks * sizeof *s->holders);
  lls_pol_state_pass(w, s->next, blocks * sizeof *s->next);
  lls_pol_state_pass(w, s->lists, s->n_lists * sizeof *s->lists);
  lls_pol_state_pass(w, s->words, s->n_words * sizeof *s->words);
}
