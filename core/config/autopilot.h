/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a server changes to another configuration by itself ([server] autopilot): a rule
 * without a clock, told of one round after another, each of which is an answer of
 * llmserve-whatif about the traffic since the one before.
 *
 * - A change is made when the same candidate was best three times in a row, farther ahead
 *   each time than the simulation is off.
 * - The round after a change judges it. It is taken back if what was served is worse than
 *   before, and worse than what ran before would have served of the same traffic: its
 *   simulation, off by as much as it was before. So heavier traffic alone takes nothing
 *   back, nor does a simulation alone.
 * - A configuration that was taken back is not chosen again for 8 rounds, the next time
 *   for 16, and so on: a simulator that is wrong about it is asked ever less often.
 *
 * Hence at most one change in three rounds, and none that a round did not follow.
 */
#ifndef LLS_CONFIG_AUTOPILOT_H
#define LLS_CONFIG_AUTOPILOT_H

#include <stdbool.h>

#define LLS_AUTOPILOT_ROUNDS 3
#define LLS_AUTOPILOT_NAME   256
#define LLS_AUTOPILOT_BARRED 32 /* configurations that are remembered */

struct lls_autopilot_round {
  const char *best; /* name of a candidate; NULL: no difference that can be told */
  double margin;    /* a part: how far simulated and served are apart */
  bool more;        /* more of the objective is better */
  double served;    /* the objective as it was; NaN: not known */
  double simulated; /* of what runs; NaN: not known */
  double before;    /* simulated, of what ran before the last change; NaN: not known */
};

enum lls_autopilot_act { LLS_AUTOPILOT_STAY, LLS_AUTOPILOT_CHANGE, LLS_AUTOPILOT_BACK };

struct lls_autopilot {
  char best[LLS_AUTOPILOT_NAME]; /* of the last rounds; after a change, what runs */
  unsigned in_a_row;
  bool trial;                             /* the next round judges a change */
  double served_before, simulated_before; /* of the round that made it */
  struct {
    char name[LLS_AUTOPILOT_NAME];
    unsigned rounds, next; /* still barred for; then, if it is taken back again */
  } barred[LLS_AUTOPILOT_BARRED];
};

/* Zeroed it begins. CHANGE: to round->best; BACK: to what ran before the last change. */
enum lls_autopilot_act lls_autopilot_tell(struct lls_autopilot *,
                                          const struct lls_autopilot_round *);

#endif
