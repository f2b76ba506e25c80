/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache manager's state, shared by its files (ALISE, section 3.3 and 3.4): the
 * usual policy (policy/side.h), which also keeps full blocks in int8, and transfers.
 *
 * A sequence is on the device or on the host as a whole, or moves between them. Then its
 * *target*, one of the side's sequences that no request has, holds the blocks that it
 * goes to, and its own list gets shorter from the end: the last block goes first, since
 * shared blocks must be released in that order. Copies of a transfer are listed in
 * commit, as many in a step as the link carries while the step computes; on_transfer
 * frees their source blocks. Device blocks of a transfer are pinned: a copy beside the
 * steps may read or write them.
 *
 * Invariants, checked by audit beside the side's:
 *   1. `moving` has the sequences that move, each once; these alone have a target.
 *   2. The blocks of a list before `listed` have no copy yet.
 *   3. A slab has as many pins as it has device blocks of transfers.
 */
#ifndef TIERED_H
#define TIERED_H

#include <llmserve/policy/side.h>

struct params {
  double share; /* fraction of a step's time in which transfers may use the link */
  bool prefix_sharing;
  bool to_host;
  double lease_share;
};

struct transfer {  /* one for each slot */
  uint32_t number; /* 0: its sequence does not move */
  /* by group: the engine has the copies of the blocks from this one on */
  uint32_t listed[LLS_POL_MAX_GROUPS];
};

struct tiered {
  struct lls_pol_side side; /* first: the functions of policy/face.h look for it there */
  struct params params;
  uint64_t unit_bytes;
  uint32_t n_slots;           /* of requests */
  struct transfer *transfers; /* (n_slots) */
  uint32_t *moving, n_moving; /* (n_slots) slots, oldest transfer first */
  uint32_t last_transfer;
  bool *paced;      /* (n_slots) requests with a deadline for the times between tokens */
  uint32_t n_paced; /* of them; without those that another generation admitted */
  uint32_t link_units; /* see tiered_link_units; of this transaction */
};

static inline uint32_t slot_of(const struct tiered *m, const struct lls_pol_sequence *s)
{
  return (uint32_t)(s - m->side.rows.sequences);
}

static inline struct lls_pol_sequence *target_of(const struct tiered *m,
                                                 const struct lls_pol_sequence *s)
{
  return &m->side.rows.sequences[m->n_slots + slot_of(m, s)];
}

/* ---- transfer.c: moving sequences between the tiers while steps compute */

/* Starts a transfer; -errno as offload and upload have it. In a transaction. */
int tiered_start(struct tiered *, struct lls_pol_sequence *, bool to_host);
/* Ends a transfer at once: the blocks that the sequence was to get are given back, and it
 * keeps those that it has still. -ENOBUFS: the journal is full. */
int tiered_stop(struct tiered *, struct lls_pol_sequence *);
/* Units that the link carries in its share of a step; UINT32_MAX if its speed is unknown.
 */
uint32_t tiered_link_units(const struct tiered *);
/* Lists as many copies of transfers as the link carries in this step. */
void tiered_list_transfers(struct tiered *);
/* Called when the listed copies of a transfer have ended: frees their source blocks. */
void tiered_transferred(struct tiered *, uint32_t transfer);

/* ---- audit.c: as the side's `audit` */
void tiered_audit(void *, struct lls_pol_report *);

#endif
