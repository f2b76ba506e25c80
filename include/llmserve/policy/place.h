/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which instance of a role a request goes to: the one whose cache would be filled least
 * with it, offers that it has not taken over yet included (DistServe, 4.3: "the least
 * loaded decoding instance"). Memory is what a decode step's time and the room for more
 * both go by, and a slow instance stays full for longer, so it gets less. Among equals,
 * as while they are idle, it is the one with fewer requests, then with shorter steps,
 * else they take turns.
 */
#ifndef LLS_POL_PLACE_H
#define LLS_POL_PLACE_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_PLACE_INSTANCES                                                          \
  64 /* what is placed on further ones is seen a step later */
#define LLS_POL_PLACE_NOWHERE UINT32_MAX

struct lls_pol_place {
  bool in_turn;  /* always: load is not looked at, an ablation */
  uint32_t next; /* who comes first among equals */
  uint64_t units[LLS_POL_PLACE_INSTANCES]; /* placed by this plan */
};

/* A new plan. */
void lls_pol_place_begin(struct lls_pol_place *);
/* The instance of `role`, enum lls_role, for r, which is on the device here; NOWHERE:
 * there is none that has not failed. It is taken to be planned. */
uint32_t lls_pol_place(struct lls_pol_place *, const struct lls_topology *,
                       const struct lls_step_view *, uint32_t role,
                       const struct lls_request *r);

#ifdef __cplusplus
}
#endif

#endif
