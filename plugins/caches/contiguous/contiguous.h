/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous cache manager's state, shared by its files.
 *
 * Block b begins with unit b * `units`. A sequence holds one region, `blocks` blocks in a
 * row from `base` on, reserved at its start for the greatest length it may reach. Blocks
 * between the regions are free.
 *
 * Invariants, checked by audit:
 *   1. `order` has the slots of all sequences that hold a region, by base; regions do not
 *      overlap and lie within the pool; `held` is the sum of their blocks.
 *   2. A sequence has no more tokens than its region has room for.
 *   3. In a transaction every change of a sequence goes through contiguous_set, which
 *      writes down the old value. `order` follows from the sequences, so restoring the
 *      old values, the newest change first, is an exact rollback.
 */
#ifndef CONTIGUOUS_H
#define CONTIGUOUS_H

#include "../../common/reservation.h"

#include <llmserve/cache.h>

struct params {
  int64_t reserve, max_len;
};

struct sequence { /* one for each slot */
  uint64_t request;
  bool admitted;
  uint32_t base, blocks; /* 0 blocks: it holds nothing */
  uint32_t cached;       /* tokens computed */
};

struct change {
  uint32_t slot, n_copies;
  struct sequence old;
};

struct listed { /* the region for which a sequence's lists were written */
  uint32_t base, blocks;
};

struct contiguous {
  const struct lls_host *host;
  struct params params;
  uint32_t units; /* of a block */
  uint32_t block_tokens, n_blocks, n_slots;
  struct sequence *sequences; /* (n_slots) */
  struct listed *listed;      /* (n_slots) */
  uint32_t *order;            /* (n_slots) slots by base */
  uint32_t n_order, held;
  struct lls_block_entry *entries; /* (n_blocks) those of a sequence are at its base */
  struct lls_group_list *lists;    /* (n_slots) of tables */
  struct lls_copy *copies;         /* (max_copies) of this step */
  uint32_t n_copies, max_copies;
  bool open; /* a transaction is open */
  uint32_t held_at_begin;
  struct change *journal; /* (max_changes) undo log of the open transaction */
  uint32_t n_changes, max_changes;
};

static inline uint32_t blocks_of(const struct contiguous *m, uint64_t tokens)
{
  return (uint32_t)((tokens + m->block_tokens - 1) / m->block_tokens);
}

/* ---- regions.c: places of sequences */
void contiguous_set(struct contiguous *, uint32_t slot, struct sequence);
void contiguous_undo(struct contiguous *, uint32_t to);
/* Gives the sequence a region of `blocks`: extends the one it has if possible, else takes
 * the first gap that is large enough and copies its cached tokens there. Returns false,
 * with nothing changed, if there is no such gap. */
bool contiguous_place(struct contiguous *, uint32_t slot, uint32_t blocks);
uint32_t contiguous_largest_gap(const struct contiguous *);

/* ---- audit.c */
int contiguous_audit(struct contiguous *, const struct lls_sink *);

#endif
