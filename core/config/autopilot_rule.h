/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a server changes to another configuration by itself ([server] autopilot): a rule
 * without a clock. The caller passes it one round after another; each round is an
 * answer of llmserve-whatif about the traffic since the previous one.
 *
 * - It changes to a candidate that was best three times in a row, each time by more
 *   than the margin (the error of the simulation).
 * - The round after a change judges it. It is reverted if the served objective is worse
 *   than before, and also worse than the previous configuration would have achieved
 *   with the same traffic, by its simulation corrected by its earlier error. So neither
 *   heavier traffic alone nor a simulation alone reverts a change.
 * - A reverted configuration is barred for 8 rounds, the next time for 16, and so on:
 *   the more often the simulator is wrong about a configuration, the more rarely it is
 *   tried.
 *
 * Hence there is at most one change in three rounds, and a round judges every change.
 */
#ifndef LLS_CONFIG_AUTOPILOT_RULE_H
#define LLS_CONFIG_AUTOPILOT_RULE_H

#include <stdbool.h>

#define LLS_AUTOPILOT_ROUNDS 3
#define LLS_AUTOPILOT_NAME   256
#define LLS_AUTOPILOT_BARRED 32 /* most barred configurations that are remembered */

struct lls_autopilot_round {
  const char *best; /* name of the best candidate; NULL: no significant difference */
  double margin;    /* relative difference of simulated and served */
  bool more;        /* a larger objective is better */
  double served;    /* the measured objective; NaN: not known */
  /* the objective simulated with the running configuration; NaN: not known */
  double simulated;
  /* the objective simulated with the configuration before the last change; NaN: not
   * known */
  double before;
};

enum lls_autopilot_act { LLS_AUTOPILOT_STAY, LLS_AUTOPILOT_CHANGE, LLS_AUTOPILOT_BACK };

struct lls_autopilot {
  /* best candidate of the last rounds; after a change the running one */
  char best[LLS_AUTOPILOT_NAME];
  unsigned in_a_row;
  bool trial;                             /* the next round judges a change */
  double served_before, simulated_before; /* values in the round that made the change */
  struct {
    char name[LLS_AUTOPILOT_NAME];
    /* rounds still barred; rounds to bar if it is reverted again */
    unsigned rounds, next;
  } barred[LLS_AUTOPILOT_BARRED];
};

/* Applies the rule to one round; the state begins zeroed. CHANGE: change to
 * round->best; BACK: return to the configuration before the last change. */
enum lls_autopilot_act lls_autopilot_tell(struct lls_autopilot *,
                                          const struct lls_autopilot_round *);

#endif
