/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrival, states and end of a request of an instance; see lifecycle.c. Everything here
 * is [step].
 */
#ifndef LLS_INSTANCE_LIFECYCLE_H
#define LLS_INSTANCE_LIFECYCLE_H

#include "core/instance/instance.h"

/* The cache manager refused it with this code, and said why. */
void lls_lifecycle_log_refusal(const struct lls_instance *, const struct lls_live *,
                               int rc);
void lls_lifecycle_arrive(struct lls_instance *, struct lls_live *);
/* It was alive in a process that is gone. */
void lls_lifecycle_arrive_again(struct lls_instance *, struct lls_live *);
void lls_lifecycle_predict(struct lls_instance *, struct lls_live *);
/* Gives the request a prediction, of which lengths beyond the context are cut to it;
 * -EPROTO, and the request keeps what it has, if the contract excludes it. */
int lls_lifecycle_take_prediction(struct lls_instance *, struct lls_live *,
                                  const struct lls_prediction *);
/* Its predictor hears that it has ended, here at least: enum lls_finish_reason. */
void lls_lifecycle_tell_predictor(struct lls_instance *, const struct lls_live *,
                                  uint32_t reason);
void lls_lifecycle_finish(struct lls_instance *, struct lls_live *, uint32_t reason);
/* Ends everything alive, e.g. when the engine has failed. */
void lls_lifecycle_finish_all(struct lls_instance *, uint32_t reason);
void lls_lifecycle_set_state(struct lls_instance *, struct lls_live *, uint32_t state);
/* Brings the view's cache members up to date with the manager's info. */
void lls_lifecycle_refresh(struct lls_instance *, struct lls_live *);
void lls_lifecycle_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);

#endif
