/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the instance of a role for a request: the one whose cache would be filled
 * least, counting offers that it has not taken over yet (DistServe, 4.3: "the least
 * loaded decoding instance"). A decode step's time and the capacity for more requests
 * both depend on memory, and a slow instance stays full for longer, so it receives
 * less. Among equal instances, such as idle ones, it is the one with fewer requests,
 * then with shorter steps, else they take turns.
 */
#ifndef LLS_POL_PLACE_H
#define LLS_POL_PLACE_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instances with a higher index are counted one step later. */
#define LLS_POL_PLACE_INSTANCES 64
#define LLS_POL_PLACE_NOWHERE   UINT32_MAX

struct lls_pol_place {
  bool in_turn;                            /* take turns, ignoring load: an ablation */
  uint32_t next;                           /* index at which the search begins */
  uint64_t units[LLS_POL_PLACE_INSTANCES]; /* units placed by this plan */
};

/* Begins a new plan. */
void lls_pol_place_begin(struct lls_pol_place *);
/* Returns the instance of `role`, enum lls_role, for r, which is on the device here,
 * and counts r as placed there. NOWHERE: all such instances have failed, or there is
 * none. */
uint32_t lls_pol_place(struct lls_pol_place *, const struct lls_topology *,
                       const struct lls_step_view *, uint32_t role,
                       const struct lls_request *r);

#ifdef __cplusplus
}
#endif

#endif
