/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a driven sequence (drive.h) in the groups of layers behind the first. What
 * has left a window is given back before each step and goes to the next sequence at once,
 * so that a layer which still read it would read another sequence's.
 */
#ifndef LLS_T_DRIVE_GROUPS_H
#define LLS_T_DRIVE_GROUPS_H

#include "t/reference.h"
#include "t/sequence.h"

#include "core/engine/engine.h"

/* Blocks of a group of states: three for each sequence. */
#define DRIVE_STATES (3 * REFERENCE_MAX_PROMPTS)

static inline bool drive_is_state(const struct lls_engine_caps *caps, uint32_t group)
{
  return caps->groups[group]->kind == LLS_GROUP_STATE;
}

/* The first of these groups: group 0 too where no layer attends. */
static inline uint32_t drive_first(const struct lls_engine_caps *caps)
{
  return drive_is_state(caps, 0) ? 0 : 1;
}

/* Blocks of a sequence in a group: those from `gone` on are its own. */
struct drive_kept {
  struct lls_block_entry entries[SEQUENCE_MAX_BLOCKS];
  uint32_t gone, n;
};

struct drive_groups {
  const struct lls_engine_caps *caps;
  const struct lls_pool_shape *pool;
  uint32_t device_blocks, host_blocks; /* of each group */
  struct units free[LLS_MAX_GROUPS];
  struct drive_kept kept[LLS_MAX_GROUPS][REFERENCE_MAX_PROMPTS];
  struct lls_group_list lists[REFERENCE_MAX_PROMPTS][LLS_MAX_GROUPS];
  struct lls_block_table tables[REFERENCE_MAX_PROMPTS];
};

/* A pool has an area for each group, in their order. */
static inline uint32_t drive_area(const struct drive_groups *g, uint32_t group,
                                  uint32_t blocks)
{
  uint32_t begin = 0;
  for (uint32_t i = 0; i < group; i++)
    begin += blocks * lls_group_units(g->pool, i, LLS_FORM_KV);
  return begin;
}

static inline void drive_groups_init(struct drive_groups *g,
                                     const struct lls_engine *engine,
                                     uint32_t device_blocks, uint32_t host_blocks)
{
  g->caps = lls_engine_caps(engine);
  g->pool = lls_engine_pool_shape(engine);
  g->device_blocks = device_blocks;
  g->host_blocks = host_blocks;
  for (uint32_t i = drive_first(g->caps); i < g->caps->n_groups; i++) {
    uint32_t units = lls_group_units(g->pool, i, LLS_FORM_KV);
    uint32_t area = drive_area(g, i, device_blocks);
    uint32_t blocks = drive_is_state(g->caps, i) ? DRIVE_STATES : device_blocks;
    units_init(&g->free[i], blocks * units, units);
    for (uint32_t k = 0; k < g->free[i].n; k++)
      g->free[i].free[k] += area;
  }
}

static inline void drive_groups_trim(struct drive_groups *g, uint32_t who,
                                     uint32_t context)
{
  for (uint32_t i = drive_first(g->caps); i < g->caps->n_groups; i++) {
    struct drive_kept *k = &g->kept[i][who];
    if (drive_is_state(g->caps, i))
      continue;
    uint32_t begin = lls_group_begin(g->caps->groups[i], context) / g->pool->block_tokens;
    for (; k->gone < begin && k->gone < k->n; k->gone++)
      g->free[i].free[g->free[i].n++] = k->entries[k->gone].block;
  }
}

/* Keeps the last one of several states, which was written. */
static inline void drive_settle_state(struct drive_kept *k, struct units *free)
{
  for (; k->n > 1; k->n--) {
    free->free[free->n++] = k->entries[0].block;
    memmove(k->entries, k->entries + 1, (k->n - 1) * sizeof *k->entries);
  }
}

/* The states of a step from `context` to `tokens`: one for both, or another to be
 * written; between them may be a copy in the middle of the step. */
static inline void drive_grow_state(struct drive_kept *k, struct units *free,
                                    uint32_t context, uint32_t tokens)
{
  uint32_t wanted = tokens % 2 == 0 ? 1 : tokens - context > 2 ? 3 : 2;
  drive_settle_state(k, free);
  for (; k->n < wanted; k->n++)
    k->entries[k->n] = (struct lls_block_entry){.block = free->free[--free->n]};
  k->entries[0].first_token = context;
  if (wanted == 3)
    k->entries[1].first_token = context + (tokens - context) / 2;
}

/* Gives room for the tokens from `context` to `tokens`, and returns the table with all
 * groups; `first` is that of group 0. */
static inline const struct lls_block_table *
drive_groups_grow(struct drive_groups *g, uint32_t who, uint32_t context, uint32_t tokens,
                  bool reversed, const struct lls_block_table *first)
{
  struct lls_group_list *lists = g->lists[who];
  if (drive_first(g->caps) > 0)
    lists[0] = first->lists[0];
  for (uint32_t i = drive_first(g->caps); i < g->caps->n_groups; i++) {
    struct drive_kept *k = &g->kept[i][who];
    if (drive_is_state(g->caps, i))
      drive_grow_state(k, &g->free[i], context, tokens);
    else
      list_grow(k->entries, &k->n, &g->free[i], tokens, g->pool->block_tokens,
                LLS_FORM_KV, reversed);
    lists[i] = (struct lls_group_list){.entries = k->entries + k->gone,
                                       .n_entries = k->n - k->gone};
  }
  g->tables[who] =
      (struct lls_block_table){.n_groups = g->caps->n_groups, .lists = lists};
  return &g->tables[who];
}

static inline void drive_groups_drop(struct drive_groups *g, uint32_t who)
{
  for (uint32_t i = drive_first(g->caps); i < g->caps->n_groups; i++) {
    struct drive_kept *k = &g->kept[i][who];
    for (; k->n > k->gone; k->n--)
      g->free[i].free[g->free[i].n++] = k->entries[k->n - 1].block;
    k->gone = k->n = 0;
  }
}

/* Appends the copies of all blocks to the host, whose area has room for the same
 * number of blocks of each sequence, or back to new blocks. */
static inline uint32_t drive_groups_move(struct drive_groups *g, uint32_t who, bool out,
                                         struct lls_copy *copies)
{
  uint32_t n = 0;
  for (uint32_t i = drive_first(g->caps); i < g->caps->n_groups; i++) {
    struct drive_kept *k = &g->kept[i][who];
    uint32_t units = lls_group_units(g->pool, i, LLS_FORM_KV);
    bool state = drive_is_state(g->caps, i);
    uint32_t each = state ? 2 : g->host_blocks / REFERENCE_MAX_PROMPTS;
    if (state)
      drive_settle_state(k, &g->free[i]);
    assert_true(k->n < each);
    for (uint32_t b = k->gone; b < k->n; b++) {
      uint32_t host = drive_area(g, i, g->host_blocks) + (who * each + b) * units;
      uint32_t *device = &k->entries[b].block;
      if (!out)
        *device = g->free[i].free[--g->free[i].n];
      copies[n++] = (struct lls_copy){
          .source_tier = out ? LLS_TIER_DEVICE : LLS_TIER_HOST,
          .target_tier = out ? LLS_TIER_HOST : LLS_TIER_DEVICE,
          .group = (uint8_t)i,
          .n_slots = (uint16_t)(state ? 0 : g->pool->block_tokens),
          .source = out ? *device : host,
          .target = out ? host : *device,
      };
      if (out)
        g->free[i].free[g->free[i].n++] = *device;
    }
  }
  return n;
}

#endif
