/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of cache_groups.c: blocks, the index, lists, and what is taken when. Every
 * search is linear, and all state is words in one array, which a journal restores.
 */
#ifndef LLS_CACHE_GROUPS_PARTS_H
#define LLS_CACHE_GROUPS_PARTS_H

#include "t/cache_base.h"

#include <stdio.h>
#include <string.h>

#define NONE LLS_POL_NIL

enum mutant {
  NOTHING,
  IN_PLACE,       /* a step writes its state over a state that the index has */
  EARLY,          /* a window's block is given back one token early */
  HALF_HIT,       /* a prefix has the FULL blocks, but not the window's */
  OTHER_POSITION, /* the state of a prefix is that of a shorter one */
  BY_TOKENS,      /* equal tokens under different keys are shared */
  REJECTED,       /* blocks are known by what was reserved, not by what was computed */
  OVERLAP,        /* blocks of two sizes have a unit in common */
  BEFORE_COPY,    /* an entry has a form that no copy made */
  HALF_ROLLBACK,  /* of the second group a rollback restores no list */
  HALF_SWAP,      /* the last group stays behind in a swap */
  HALF_RELOAD,    /* a reload confuses the second group's blocks */
};

struct params {
  int64_t mutant;
};

/* This struct has words only, since the journal and an exported state are of words. */
struct unit { /* at a block's first unit, but for `owner` */
  uint32_t owner, holders, form;
  uint32_t known; /* 1 + group: its contents are those of the key */
  uint32_t key[4];
  uint32_t since; /* when it was used last */
};

enum { NOWHERE, ON_DEVICE, ON_HOST };

struct sequence {
  uint32_t admitted, where, cached, reserved;
};

struct list { /* blocks [gone, past); of a state: the one read, and the one written */
  uint32_t gone, past;
};

struct manager {
  struct base base;
  const struct lls_host *host;
  struct lls_cache_geometry g;
  int64_t mutant;
  uint32_t n_groups, row;
  uint32_t n_words, *words; /* all of the following */
  struct unit *units[2];    /* by tier */
  struct sequence *sequences;
  struct list *lists; /* (n_slots, n_groups) */
  uint32_t *blocks;   /* (n_slots, n_groups, row) first units */
  uint32_t *clock;
  uint32_t n_copies, max_copies;
  struct lls_copy *copies;         /* (max_copies) */
  struct lls_group_list *tables;   /* (n_slots, n_groups) */
  struct lls_block_entry *entries; /* (n_slots, n_groups, row) */
};

static void *more(void *array, uint32_t n, uint32_t *max, size_t size)
{
  if (n < *max)
    return array;
  *max = 2 * *max + 64;
  array = realloc(array, *max * size);
  if (array == NULL)
    abort();
  return array;
}

static void set(struct manager *m, uint32_t *where, uint32_t value)
{
  struct lls_pol_journal *j = &m->base.journal;
  j->changes = more(j->changes, j->n, &j->max, sizeof *j->changes);
  lls_pol_journal_set(j, where, value);
}

static uint32_t min(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* ---- parts ------------------------------------------------------------------------ */

static const struct lls_group *group_of(const struct manager *m, uint32_t group)
{
  return m->host->engine->groups[group];
}

static bool is_state(const struct manager *m, uint32_t group)
{
  return group_of(m, group)->kind == LLS_GROUP_STATE;
}

static struct list *list_of(const struct manager *m, uint32_t slot, uint32_t group)
{
  return &m->lists[slot * m->n_groups + group];
}

static uint32_t *block_of(const struct manager *m, uint32_t slot, uint32_t group,
                          uint32_t i)
{
  return &m->blocks[(slot * m->n_groups + group) * m->row + i];
}

static struct sequence *sequence_of(const struct manager *m, const struct lls_request *r)
{
  return &m->sequences[r->slot];
}

static uint32_t units_of(const struct manager *m, uint32_t tier)
{
  return tier == LLS_TIER_DEVICE ? m->g.device_units : m->g.host_units;
}

static uint32_t size_of(const struct manager *m, uint32_t group, uint32_t form)
{
  return lls_group_form_of(group_of(m, group), form)->block_units;
}

/* ---- blocks ----------------------------------------------------------------------- */

static bool is_free(const struct manager *m, uint32_t tier, uint32_t unit, uint32_t n)
{
  if (unit + n > units_of(m, tier))
    return false;
  for (uint32_t u = unit; u < unit + n; u++)
    if (m->units[tier][u].owner != 0)
      return false;
  return true;
}

static void free_block(struct manager *m, uint32_t tier, uint32_t unit)
{
  for (uint32_t u = unit; u < units_of(m, tier) && m->units[tier][u].owner == unit + 1;
       u++)
    set(m, &m->units[tier][u].owner, 0);
  set(m, &m->units[tier][unit].known, 0);
}

/* Frees the block that was used least recently and is only known. */
static bool evict(struct manager *m)
{
  uint32_t worst = NONE;
  for (uint32_t u = 0; u < m->g.device_units; u++) {
    const struct unit *b = &m->units[LLS_TIER_DEVICE][u];
    if (b->owner == u + 1 && b->holders == 0 &&
        (worst == NONE || b->since < m->units[LLS_TIER_DEVICE][worst].since))
      worst = u;
  }
  if (worst != NONE)
    free_block(m, LLS_TIER_DEVICE, worst);
  return worst != NONE;
}

/* States come from one end and the rest from the other, so that neither breaks up the
 * other's room. */
static uint32_t room_for(const struct manager *m, uint32_t tier, uint32_t group,
                         uint32_t n)
{
  uint32_t end = units_of(m, tier);
  for (uint32_t i = 0; i + n <= end; i += is_state(m, group) ? n : 1) {
    uint32_t unit = is_state(m, group) ? end - n - i : i;
    if (is_free(m, tier, unit, n))
      return unit;
  }
  return NONE;
}

static uint32_t take(struct manager *m, uint32_t tier, uint32_t group, uint32_t form)
{
  uint32_t n = size_of(m, group, form), unit;
  while ((unit = room_for(m, tier, group, n)) == NONE)
    if (tier == LLS_TIER_HOST || !evict(m))
      return NONE;
  n -= m->mutant == OVERLAP && group > 0 && n > 1;
  for (uint32_t u = unit; u < unit + n; u++)
    set(m, &m->units[tier][u].owner, unit + 1);
  set(m, &m->units[tier][unit].holders, 1);
  set(m, &m->units[tier][unit].form, form);
  return unit;
}

static void hold(struct manager *m, uint32_t unit)
{
  struct unit *b = &m->units[LLS_TIER_DEVICE][unit];
  set(m, &b->holders, b->holders + 1);
}

static void let_go(struct manager *m, uint32_t tier, uint32_t unit)
{
  struct unit *b = &m->units[tier][unit];
  set(m, &b->holders, b->holders - 1);
  set(m, &b->since, *m->clock);
  set(m, m->clock, *m->clock + 1);
  if (b->holders == 0 && b->known == 0)
    free_block(m, tier, unit);
}

static void add_copy(struct manager *m, uint32_t group, uint32_t from_tier, uint32_t from,
                     uint32_t to_tier, uint32_t to)
{
  m->copies = more(m->copies, m->n_copies, &m->max_copies, sizeof *m->copies);
  m->copies[m->n_copies] = (struct lls_copy){
      .source_tier = (uint8_t)from_tier,
      .target_tier = (uint8_t)to_tier,
      .group = (uint8_t)group,
      .source_form = (uint8_t)m->units[from_tier][from].form,
      .target_form = (uint8_t)m->units[to_tier][to].form,
      .n_slots = (uint16_t)(is_state(m, group) ? 0 : m->g.block_tokens),
      .source = from,
      .target = to,
  };
  set(m, &m->n_copies, m->n_copies + 1);
}

/* ---- the index -------------------------------------------------------------------- */

static void key_of(const struct manager *m, const struct lls_request *r, uint32_t i,
                   uint32_t key[4])
{
  struct lls_key k = r->keys[i];
  if (m->mutant == BY_TOKENS) {
    k = (struct lls_key){{14695981039346656037u, 0}};
    for (uint32_t p = 0; p < (i + 1) * m->g.block_tokens; p++)
      k.word[0] = (k.word[0] ^ (uint32_t)r->tokens[p]) * 1099511628211u;
  }
  memcpy(key, &k, sizeof k);
}

/* The block of a group that is known to have the request's i-th block; of a STATE group
 * the state after it. */
static uint32_t known_block(const struct manager *m, const struct lls_request *r,
                            uint32_t group, uint32_t i)
{
  uint32_t key[4];
  key_of(m, r, i, key);
  for (uint32_t u = 0; u < m->g.device_units; u++) {
    const struct unit *b = &m->units[LLS_TIER_DEVICE][u];
    if (b->known == group + 1 && b->owner == u + 1 &&
        memcmp(key, b->key, sizeof key) == 0)
      return u;
  }
  return NONE;
}

static void know(struct manager *m, const struct lls_request *r, uint32_t group,
                 uint32_t i, uint32_t unit)
{
  struct unit *b = &m->units[LLS_TIER_DEVICE][unit];
  if (i >= r->n_keys || b->known != 0 || known_block(m, r, group, i) != NONE)
    return;
  set(m, &b->known, group + 1);
  key_of(m, r, i, b->key);
}

/* ---- lists ------------------------------------------------------------------------ */

static void set_list(struct manager *m, uint32_t group, uint32_t *where, uint32_t value)
{
  if (m->mutant == HALF_ROLLBACK && group == 1)
    *where = value;
  else
    set(m, where, value);
}

static uint32_t needless(const struct manager *m, uint32_t group, uint32_t cached)
{
  return is_state(m, group)
             ? 0
             : lls_group_begin(group_of(m, group), cached) / m->g.block_tokens;
}

/* The blocks that the list ends with when there is room for `tokens` more. */
static uint32_t end_for(const struct manager *m, const struct lls_request *r,
                        uint32_t group, uint32_t tokens)
{
  const struct sequence *s = sequence_of(m, r);
  if (group_of(m, group)->kind != LLS_GROUP_FULL && r->cached_tokens <= s->cached)
    tokens = min(tokens, m->host->engine->max_step_tokens);
  return (s->cached + tokens + m->g.block_tokens - 1) / m->g.block_tokens;
}

/* Is the state to be written beside the one that is read? The one read stays a
 * checkpoint at the end of a block, or is another's too. */
static bool needs_target(const struct manager *m, const struct lls_request *r,
                         uint32_t group)
{
  const struct sequence *s = sequence_of(m, r);
  const struct unit *b = &m->units[LLS_TIER_DEVICE][*block_of(m, r->slot, group, 0)];
  if (list_of(m, r->slot, group)->past == 0 || s->where != ON_DEVICE)
    return false;
  if (b->known != 0 || b->holders > 1)
    return m->mutant != IN_PLACE;
  return s->cached > 0 && s->cached % m->g.block_tokens == 0;
}

static bool grow(struct manager *m, const struct lls_request *r, uint32_t group,
                 uint32_t end)
{
  struct list *l = list_of(m, r->slot, group);
  while (l->past < end) {
    uint32_t unit = take(m, LLS_TIER_DEVICE, group, group_of(m, group)->forms[0].form);
    if (unit == NONE)
      return false;
    set(m, block_of(m, r->slot, group, l->past), unit);
    set_list(m, group, &l->past, l->past + 1);
  }
  return true;
}

static void drop(struct manager *m, uint32_t slot)
{
  struct sequence *s = &m->sequences[slot];
  uint32_t tier = s->where == ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct list *l = list_of(m, slot, group);
    for (uint32_t i = l->gone; i < l->past; i++)
      let_go(m, tier, *block_of(m, slot, group, i));
    set_list(m, group, &l->gone, 0);
    set_list(m, group, &l->past, 0);
  }
  set(m, &s->where, NOWHERE);
  set(m, &s->cached, 0);
}

/* Moves the blocks that have tokens to the other tier. */
static bool change_tier(struct manager *m, uint32_t slot, uint32_t to)
{
  struct sequence *s = &m->sequences[slot];
  uint32_t from = LLS_TIER_HOST - to, bt = m->g.block_tokens;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct list *l = list_of(m, slot, group);
    uint32_t used = is_state(m, group) ? min(1, l->past) : (s->cached + bt - 1) / bt;
    for (uint32_t i = used; i < l->past; i++)
      let_go(m, from, *block_of(m, slot, group, i));
    set_list(m, group, &l->past, min(used, l->past));
    for (uint32_t i = l->gone; i < l->past; i++) {
      uint32_t *at = block_of(m, slot, group, i), old = *at;
      uint32_t unit = take(m, to, group, m->units[from][old].form);
      if (unit == NONE)
        return false;
      if (m->mutant != HALF_SWAP || group == 0 || group < m->n_groups - 1)
        add_copy(m, group, from, old, to, unit);
      set(m, at, unit);
      let_go(m, from, old);
    }
  }
  set(m, &s->where, to == LLS_TIER_HOST ? ON_HOST : ON_DEVICE);
  return true;
}

/* Full blocks of group 0 that are this sequence's alone become narrow. */
static void narrow(struct manager *m, const struct lls_request *r)
{
  uint32_t full = sequence_of(m, r)->cached / m->g.block_tokens;
  for (uint32_t i = 0; m->g.device_form != LLS_FORM_NONE && i < full; i++) {
    uint32_t *at = block_of(m, r->slot, 0, i), old = *at;
    struct unit *b = &m->units[LLS_TIER_DEVICE][old];
    if (b->form == m->g.device_form || b->holders > 1)
      continue;
    uint32_t unit = take(m, LLS_TIER_DEVICE, 0, m->g.device_form);
    if (unit == NONE)
      return;
    if (m->mutant != BEFORE_COPY)
      add_copy(m, 0, LLS_TIER_DEVICE, old, LLS_TIER_DEVICE, unit);
    set(m, &b->known, 0);
    let_go(m, LLS_TIER_DEVICE, old);
    set(m, at, unit);
  }
}

/* ---- reserve ---------------------------------------------------------------------- */

static uint32_t units_for(const struct manager *m, const struct lls_request *r,
                          uint32_t tokens, bool held)
{
  uint32_t units = 0;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    const struct lls_group *g = group_of(m, group);
    const struct list *l = list_of(m, r->slot, group);
    uint32_t bt = m->g.block_tokens, n = end_for(m, r, group, tokens);
    if (g->kind == LLS_GROUP_STATE)
      n = 2;
    else if (g->kind == LLS_GROUP_WINDOW)
      n = min(n, (g->window + m->host->engine->max_step_tokens + bt - 1) / bt + 1);
    n = held ? n - min(n, l->past - l->gone) : n;
    units += n * size_of(m, group, LLS_FORM_NONE);
  }
  return units;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct manager *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)form, (void)flags;
  if (units_for(m, r, tokens, false) > m->g.device_units)
    return LLS_RESERVE_NEVER;
  if (s->where == NOWHERE)
    for (uint32_t group = 0; group < m->n_groups; group++) {
      set_list(m, group, &list_of(m, r->slot, group)->gone,
               needless(m, group, r->cached_tokens));
      set_list(m, group, &list_of(m, r->slot, group)->past,
               needless(m, group, r->cached_tokens));
    }
  if (s->where == ON_HOST && !change_tier(m, r->slot, LLS_TIER_DEVICE))
    return LLS_RESERVE_LATER;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (!grow(m, r, group,
              is_state(m, group) ? 1u + needs_target(m, r, group)
                                 : end_for(m, r, group, tokens)))
      return LLS_RESERVE_LATER;
  set(m, &s->where, ON_DEVICE);
  set(m, &s->reserved, tokens);
  narrow(m, r);
  return LLS_RESERVE_OK;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct manager *m = self;
  struct sequence *s = sequence_of(m, r);
  if (mode == LLS_PREEMPT_SWAP && m->g.host_units == 0)
    return -ENOTSUP;
  if (mode == LLS_PREEMPT_SWAP && s->cached > 0)
    return s->where == ON_HOST || change_tier(m, r->slot, LLS_TIER_HOST) ? 0 : -ENOSPC;
  drop(m, r->slot);
  return 0;
}

/* ---- prefixes --------------------------------------------------------------------- */

/* The state that a prefix of n blocks begins with. */
static uint32_t known_state(const struct manager *m, const struct lls_request *r,
                            uint32_t group, uint32_t n)
{
  uint32_t unit = known_block(m, r, group, n - 1);
  while (m->mutant == OTHER_POSITION && unit == NONE && --n > 0)
    unit = known_block(m, r, group, n - 1);
  return unit;
}

/* The longest prefix, of at most n blocks, that may have all in this group that a step
 * after it reads; n itself if it has. */
static uint32_t longest(const struct manager *m, const struct lls_request *r,
                        uint32_t group, uint32_t n)
{
  bool full = group_of(m, group)->kind == LLS_GROUP_FULL;
  if (is_state(m, group))
    return n - (known_state(m, r, group, n) == NONE);
  if (m->mutant == HALF_HIT && group > 0)
    return n;
  for (uint32_t i = needless(m, group, n * m->g.block_tokens); i < n; i++)
    if (known_block(m, r, group, i) == NONE)
      return full ? i : n - 1;
  return n;
}

static void take_known(struct manager *m, const struct lls_request *r, uint32_t group,
                       uint32_t n)
{
  struct list *l = list_of(m, r->slot, group);
  bool state = is_state(m, group);
  uint32_t begin = state ? 0 : needless(m, group, n * m->g.block_tokens);
  uint32_t end = state ? 1 : n;
  for (uint32_t i = begin; i < end; i++) {
    uint32_t unit = state ? known_state(m, r, group, n) : known_block(m, r, group, i);
    if (unit == NONE) {
      begin = i + 1;
      continue;
    }
    hold(m, unit);
    set(m, block_of(m, r->slot, group, i), unit);
  }
  set_list(m, group, &l->gone, begin);
  set_list(m, group, &l->past, end);
}

static int prefix(void *self, const struct lls_request *r, bool taken,
                  struct lls_prefix *out)
{
  struct manager *m = self;
  uint32_t n = (lls_request_length(r) - 1) / m->g.block_tokens;
  if (sequence_of(m, r)->where == NOWHERE) {
    for (uint32_t group = 0, before = n; n > 0 && group < m->n_groups; before = n) {
      n = longest(m, r, group, n);
      group = n < before ? 0 : group + 1; /* all groups again */
    }
    for (uint32_t group = 0; taken && n > 0 && group < m->n_groups; group++)
      take_known(m, r, group, n);
    if (taken && n > 0) {
      set(m, &sequence_of(m, r)->where, ON_DEVICE);
      set(m, &sequence_of(m, r)->cached, n * m->g.block_tokens);
    }
    out->tokens = n * m->g.block_tokens;
  } else {
    out->tokens = sequence_of(m, r)->cached;
  }
  return 0;
}

/* ---- after a step ----------------------------------------------------------------- */

static void next_state(struct manager *m, const struct lls_request *r, uint32_t group)
{
  struct list *l = list_of(m, r->slot, group);
  uint32_t cached = sequence_of(m, r)->cached, bt = m->g.block_tokens;
  uint32_t *read = block_of(m, r->slot, group, 0);
  if (l->past < 2)
    return;
  if (cached % bt == 0)
    know(m, r, group, cached / bt - 1, *read);
  let_go(m, LLS_TIER_DEVICE, *read);
  *read = read[1];
  l->past = 1;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached)
{
  struct manager *m = self;
  struct sequence *s = sequence_of(m, r);
  uint32_t full = (m->mutant == REJECTED ? s->cached + s->reserved : cached);
  for (uint32_t group = 0; group < m->n_groups; group++) {
    struct list *l = list_of(m, r->slot, group);
    if (is_state(m, group)) {
      next_state(m, r, group);
      continue;
    }
    for (uint32_t i = l->gone; i < full / m->g.block_tokens && i < l->past; i++)
      know(m, r, group, i, *block_of(m, r->slot, group, i));
    uint32_t gone = needless(m, group, cached + (m->mutant == EARLY));
    for (; l->gone < min(gone, l->past); l->gone++)
      let_go(m, LLS_TIER_DEVICE, *block_of(m, r->slot, group, l->gone));
  }
  s->cached = cached;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct manager *m = self;
  drop(m, r->slot);
  for (uint32_t i = 0;
       !(how->flags & LLS_KEEP_PREFIX) && r->keys != NULL && i < r->n_keys; i++)
    for (uint32_t group = 0; group < m->n_groups; group++) {
      uint32_t unit = known_block(m, r, group, i);
      if (unit == NONE)
        continue;
      m->units[LLS_TIER_DEVICE][unit].known = 0;
      if (m->units[LLS_TIER_DEVICE][unit].holders == 0)
        free_block(m, LLS_TIER_DEVICE, unit);
    }
  m->sequences[r->slot].admitted = 0;
}

#endif
