/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a request and when they began, for displays. A phase is noted when the
 * request changes state, which happens a few times in its life and not in each step. A
 * request that is preempted again and again keeps its first changes, and the number of
 * later ones.
 */
#ifndef LLS_INSTANCE_LIFE_H
#define LLS_INSTANCE_LIFE_H

#include <stdint.h>

enum lls_phase {
  LLS_PHASE_QUEUED,
  LLS_PHASE_PREFILL,
  LLS_PHASE_DECODE,
  LLS_PHASE_PAUSED,  /* preempted: to be recomputed, or it has lost slots to others */
  LLS_PHASE_SWAPPED, /* preempted: its cache is on the host */
  LLS_PHASE_MOVING,  /* the request's cache is between tiers or instances */
};

#define LLS_LIFE_CHANGES 12

struct lls_life_change {
  int64_t at_ns; /* time by the loop's clock */
  uint32_t phase;
};

struct lls_life {
  uint32_t n, n_left_out;
  struct lls_life_change changes[LLS_LIFE_CHANGES]; /* (n) */
};

static inline void lls_life_note(struct lls_life *life, uint32_t phase, int64_t at_ns)
{
  if (life->n > 0 && life->changes[life->n - 1].phase == phase)
    return;
  if (life->n == LLS_LIFE_CHANGES)
    life->n_left_out++;
  else
    life->changes[life->n++] = (struct lls_life_change){.at_ns = at_ns, .phase = phase};
}

#endif
