/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the hostile cache manager. Units are taken at random; K and V lists of a
 * sequence are cut differently, from either end if the engine supports it; and "not
 * now" is a frequent answer. Undo is brute force: before every change the whole
 * sequence and the lists of free units are copied.
 */
#ifndef LLS_T_CACHE_HOSTILE_H
#define LLS_T_CACHE_HOSTILE_H

#include "t/plugin/contract.h"

#include <llmserve/cache.h>

struct units {    /* free units of one tier */
  uint32_t *free; /* (total) */
  uint32_t n, total;
};

/* K or V of a sequence; block numbers are the host's while it is swapped out */
struct list {
  struct lls_block_entry *entries; /* (max_context) */
  uint32_t n, room;                /* number of entries; tokens that fit */
};

struct sequence {
  const struct lls_request *handle; /* NULL: the slot is free */
  uint64_t id;
  struct list lists[2]; /* K, V */
  bool on_host;
  uint32_t cached;
  bool reserved, preempted; /* in the open transaction or the last one */
};

struct undo { /* the state before one change */
  struct sequence *sequence;
  struct sequence before; /* with copies of its lists */
  struct units device, host;
  uint32_t n_copies;
  bool marked; /* mark() has returned this position */
};

struct hostile {
  struct contract contract;
  uint32_t later, uneven, overlong; /* in percent */
  uint32_t block_tokens, max_context, n_slots;
  struct sequence *sequences; /* (n_slots) */
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
/* Makes space for `tokens`. Returns false if units run out; the list keeps what it
 * got. */
bool hostile_grow(struct hostile *, struct sequence *, uint32_t tokens);
void hostile_drop(struct hostile *, struct sequence *);
/* Moves all blocks to the other tier and lists the copies for this. Returns false if
 * units run out. */
bool hostile_move(struct hostile *, struct sequence *);
bool hostile_alone(const struct hostile *, const struct sequence *);

#endif
