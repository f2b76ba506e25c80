/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous cache manager's state: that of the usual policy (policy/side.h), in
 * which the list of a sequence is a *region*, blocks in a row, taken when it starts for
 * the greatest length that it may reach. Slabs of the pool are blocks: there is one
 * group of layers. Audit checks that each region is in one piece.
 */
#ifndef CONTIGUOUS_H
#define CONTIGUOUS_H

#include "../../common/reservation.h"

#include <llmserve/policy/side.h>

struct params {
  int64_t reserve, max_len;
};

struct contiguous {
  struct lls_pol_side side; /* first: the functions of policy/face.h look for it there */
  struct params params;
};

/* ---- regions.c: places of sequences */

struct region {
  uint32_t base, blocks; /* 0 blocks: the sequence holds nothing */
};

struct region contiguous_region(const struct contiguous *,
                                const struct lls_pol_sequence *);
/* Gives the sequence a region of `blocks`: extends the one it has if possible, else takes
 * the first gap that is large enough and copies its cached tokens there. Returns false,
 * with nothing changed, if there is no such gap. */
bool contiguous_place(struct contiguous *, struct lls_pol_sequence *, uint32_t blocks);
/* Returns the size of the largest gap. */
uint32_t contiguous_largest_gap(const struct contiguous *);
/* The side's `audit`: checks and prints where the regions are. */
void contiguous_audit(void *, struct lls_pol_report *);

#endif
