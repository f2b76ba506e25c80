/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drafter of the simulator's own, in place of the configured one (--draft-acceptance,
 * or a trace's column draft_acceptance):
 * it knows the token that the simulated device will draw, and guesses it with a given
 * probability, else another one. What schedulers see is a drafter with true odds; guesses
 * are verified as in a server. Which guesses are right depends on the request's arrival
 * and the token's place alone, so that schedulers are compared on the same guesses.
 */
#ifndef LLS_SIM_TOOL_GUESSES_H
#define LLS_SIM_TOOL_GUESSES_H

#include "core/plugin/loader.h"

/* The parameters of the module. */
struct lls_guesses {
  double acceptance; /* of a guess, if those before it are right */
  /* NULL, or returns that of a request whose submission had this owner; `otherwise`: of
   * those that say none */
  double (*of)(const void *owner, double otherwise);
  uint32_t vocab;
  int32_t eos;
};

extern const struct lls_plugin_module lls_guesses_module;

#endif
