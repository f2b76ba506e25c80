/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of prefixes an instance has, as events for routers outside of the server:
 * after each step the cache manager says which blocks came to a tier or left it
 * (`changes` of cache.h), and main takes them from here.
 *
 * A manager knows keys alone. The tokens of a block, and the key of the block before it,
 * are of a table of blocks that requests have filled, which holds as many as the pool and
 * forgets the one filled longest ago.
 *
 * Nothing is lost where main is late: what has no room here waits in the manager, which
 * then reports how a block is now, not how it became so.
 */
#ifndef LLS_INSTANCE_BLOCK_EVENTS_H
#define LLS_INSTANCE_BLOCK_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_block_events;
struct lls_group;
struct lls_instance;
struct lls_live;

#define LLS_BLOCKS_CLEARED 3 /* a kind: all blocks have left */

struct lls_block_event {
  uint32_t kind; /* enum lls_block_change_kind, or LLS_BLOCKS_CLEARED */
  uint32_t group, tier;
  bool is_known; /* STORED: the members below are set */
  bool is_first; /* of a prompt: there is no parent */
  uint32_t adapter;
  const char *adapter_name; /* lives as long as the instance; NULL: without adapter */
  uint64_t key, parent;     /* first words of keys */
  const int32_t *tokens;    /* (block_tokens) */
};

struct lls_block_event_list {
  const struct lls_block_event *events; /* (n) */
  size_t n;
  uint32_t block_tokens, n_groups;
  const struct lls_group *const *groups; /* (n_groups) the engine's */
};

/* For an instance with that many blocks in all tiers. Returns -ENOMEM. */
int lls_block_events_create(uint32_t block_tokens, uint64_t blocks,
                            struct lls_block_events **out);
void lls_block_events_free(struct lls_block_events *);

/* All functions of [step] do nothing where in->block_events is NULL. */

/* [step] The request's tokens [from, until) are computed: remembers the blocks that are
 * full now. */
void lls_block_events_note(struct lls_instance *in, const struct lls_live *live,
                           uint32_t from, uint32_t until);
/* [step] Once a step, outside of the cache transaction: takes the manager's changes. */
void lls_block_events_collect(struct lls_instance *in);
/* [step] The cache manager was replaced: all blocks have left; those that the new one
 * took over it reports again. */
void lls_block_events_clear(struct lls_instance *in);
/* [step] Returns true once after events were collected, which main is to take. */
bool lls_block_events_posted(struct lls_instance *in);
/* Takes the events so far, in order, for main; valid until the next call. */
struct lls_block_event_list lls_block_events_take(struct lls_instance *);

#endif
