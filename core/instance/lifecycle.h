/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrival, states and end of a request of an instance; see lifecycle.c. Everything here
 * is [step].
 */
#ifndef LLS_INSTANCE_LIFECYCLE_H
#define LLS_INSTANCE_LIFECYCLE_H

#include <stdint.h>

struct lls_instance;
struct lls_live;
struct lls_prediction;

/* Logs that the cache manager refused the request with `rc`, and its reason. */
void lls_lifecycle_log_refusal(const struct lls_instance *, const struct lls_live *,
                               int rc);
void lls_lifecycle_arrive(struct lls_instance *, struct lls_live *);
/* Has the cache manager admit the request before it arrives, which then does not. Returns
 * the manager's answer. */
int lls_lifecycle_admit(struct lls_instance *, struct lls_live *);
/* Takes over a request whose process is lost: all its tokens are prefilled again. */
void lls_lifecycle_arrive_again(struct lls_instance *, struct lls_live *);
/* Has a request of this instance begin again, without its blocks: main has counted its
 * arrival, in the instance that handed it over. */
void lls_lifecycle_compute_again(struct lls_instance *, struct lls_live *);
void lls_lifecycle_predict(struct lls_instance *, struct lls_live *);
/* Sets the request's prediction; lengths beyond the context are cut to it. Returns
 * -EPROTO, and changes nothing, if the prediction breaks the contract. */
int lls_lifecycle_take_prediction(struct lls_instance *, struct lls_live *,
                                  const struct lls_prediction *);
/* Reports the request's end in this instance to its predictor. reason: enum
 * lls_finish_reason. */
void lls_lifecycle_tell_predictor(struct lls_instance *, const struct lls_live *,
                                  uint32_t reason);
/* Reports the request to the drafter, unless the drafter knows it; and its end, if the
 * drafter does. reason: enum lls_finish_reason. */
void lls_lifecycle_tell_drafter(struct lls_instance *, struct lls_live *);
void lls_lifecycle_leave_drafter(struct lls_instance *, struct lls_live *,
                                 uint32_t reason);
void lls_lifecycle_finish(struct lls_instance *, struct lls_live *, uint32_t reason);
/* Ends all requests, e.g. when the engine has failed. */
void lls_lifecycle_finish_all(struct lls_instance *, uint32_t reason);
void lls_lifecycle_set_state(struct lls_instance *, struct lls_live *, uint32_t state);
/* Updates the cache members of the request's view from the cache manager's info. */
void lls_lifecycle_refresh(struct lls_instance *, struct lls_live *);
void lls_lifecycle_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);

#endif
