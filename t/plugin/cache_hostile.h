/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the hostile cache manager. Blocks are taken at random and cut differently,
 * from either end where the engine can do that, and "not now" is a common answer. Undo is
 * brute force: before every change the whole sequence and the lists of free units are put
 * aside.
 */
#ifndef LLS_T_CACHE_HOSTILE_H
#define LLS_T_CACHE_HOSTILE_H

#include "t/cache_base.h"
#include "t/plugin/contract.h"

struct units {    /* free blocks of one tier */
  uint32_t *free; /* (total) first units */
  uint32_t n, total;
};

struct list { /* of a sequence; blocks of the host while it is there */
  struct lls_block_entry *entries; /* (max_context) */
  uint32_t n, room;                /* number of entries; tokens that fit */
};

struct sequence {
  const struct lls_request *handle; /* NULL: the slot is free */
  uint64_t id;
  struct list list;
  bool on_host;
  uint32_t cached;
  bool reserved, preempted; /* in the open transaction or the last one */
};

struct undo { /* the state before one change */
  struct sequence *sequence;
  struct sequence before; /* its list is a copy */
  struct units device, host;
  uint32_t n_copies;
  bool marked; /* mark() has returned this position */
};

struct hostile {
  struct contract contract;
  uint32_t later, uneven, overlong; /* per cent */
  uint32_t block_units, block_tokens, max_context, n_slots;
  struct sequence *sequences;   /* (n_slots) */
  struct lls_group_list *lists; /* (n_slots) of tables */
  struct units device, host;
  struct lls_copy *copies;
  uint32_t n_copies, copies_capacity;
  bool open;
  struct undo *undo;
  uint32_t n_undo, undo_capacity;
};

/* ---- cache_hostile_state.c; [test fixture: allocates on the step path] */
void hostile_put_aside(struct hostile *, struct sequence *);
/* hostile_undo undoes changes until n are left; forget_* drops them instead. */
void hostile_undo(struct hostile *, uint32_t n);
void hostile_forget(struct hostile *);
/* Room for `tokens`; false: not enough blocks, the list is as long as it got. */
bool hostile_grow(struct hostile *, struct sequence *, uint32_t tokens);
void hostile_drop(struct hostile *, struct sequence *);
/* All blocks to the other tier with the copies that takes; false: not enough blocks. */
bool hostile_move(struct hostile *, struct sequence *);
bool hostile_alone(const struct hostile *, const struct sequence *);

#endif
