/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a step: statistics of the last steps, and a linear model of a step's time
 * fitted while serving. It is what struct lls_cost (host.h) answers from.
 *
 *   t = c0 + c1 P + c2 A + c3 D + c4 C + c5 H + c6 [H > 0]
 *     + sum over i = 0..6 of b_i max(P + D - 8 2^i, 0)
 *
 * with P prefill tokens, A = sum over chunks of tokens * (context + tokens / 2), D
 * decodes, C their cached tokens, H tokens in hidden form: weights read once, products by
 * tokens, attention by what it reads, and W_k and W_v once more for the first of H: left
 * to c5 they were 4 us a token of OPT-13B where 0.2 are true, and hidden form never paid.
 * Few rows are there as soon as the weights are read, and from a number on that depends
 * on the device each takes its time (f of model.h): the b_i bend the line upwards where
 * that is, at 8 to 512 rows. Without them c1 or c2 took the bend, and a model that was
 * fitted to short steps was wrong of long ones. Least squares with forgetting (older
 * steps fade with weight 0.995 a step), every coefficient >= 0. Nothing is estimated from
 * fewer than 16 steps.
 *
 * With rates (model.h) estimates are the analytical model's, from the first step on. What
 * is measured while serving then feeds the statistics only: a promise made from a profile
 * stays that promise, beside which the truth can be held. Steps say nothing of links:
 * without rates the time of a transfer is not known.
 *
 * Belongs to the step thread.
 */
#ifndef LLS_COST_COST_H
#define LLS_COST_COST_H

#include <llmserve/host.h>

#include "core/cost/model.h"

struct lls_cost_model;

/* rates: NULL = estimate from what is measured alone; copied. */
int lls_cost_model_create(const struct lls_cost_rates *rates,
                          struct lls_cost_model **out);
void lls_cost_model_destroy(struct lls_cost_model *);

/* The service handed to policies; lives as long as the model. */
const struct lls_cost *lls_cost_model_service(struct lls_cost_model *);

/* A step was measured. */
void lls_cost_model_observe(struct lls_cost_model *, const struct lls_iteration_shape *,
                            int64_t duration_ns);
/* How well the last LLS_COST_JUDGED steps were estimated before they were measured: the
 * mean of |estimated / measured - 1|, and of that without the bars. */
#define LLS_COST_JUDGED 1000
struct lls_cost_accuracy {
  uint32_t steps; /* so many are behind the means */
  double error, bias;
};
struct lls_cost_accuracy lls_cost_model_accuracy(const struct lls_cost_model *);

#endif
