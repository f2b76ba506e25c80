/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a step: statistics of the last steps, and a linear model of a step's time
 * that is fitted while serving. It implements struct lls_cost (host.h).
 *
 *   t = c0 + c1 R + c2 A + c3 D + c4 C + c5 H + c6 [H > 0]
 *     + sum over i = 1..9 of b_i max(R - 2^i, 0)
 *
 * with R rows: prefill tokens, decodes and guesses to verify; A = sum over chunks of
 * tokens * (context + tokens / 2); D rows of which a token is drawn: decodes and guesses;
 * C cached tokens of the decodes, H tokens in hidden form. The terms stand for: reading
 * the weights once; products, by rows; attention, by the keys and values it reads; and
 * W_k and W_v, which are read again for the first token of H. If c5 had to cover the
 * latter, it came out at 4 us per token of OPT-13B instead of 0.2, and hidden form never
 * paid. Few rows take no longer than reading the weights; beyond a number that depends on
 * the device, each row takes its own time (f of model.h): the b_i allow the line to bend
 * upwards at 2 to 512 rows. Without them c1 or c2 absorbed the bend, and a model fitted
 * to short steps was wrong for long ones. Rows of every kind share c1 and the b_i, so
 * that the first guess has the price of a prompt's or another answer's row. With a term
 * of its own it was free until guesses had been verified.
 *
 * The fit is least squares of (t - measured) / sqrt(measured) with forgetting (the weight
 * of a step falls by 0.995 per later step), with every coefficient >= 0. Without the root
 * prompts of a second outweighed decodes of 10 ms; divided by `measured` itself estimates
 * came out 3 to 10 % too short (experiments/results/guess-price-2026-12-01.md). It gives
 * no estimates from fewer than 16 steps.
 *
 * With rates (model.h) estimates come from the analytical model, from the first step
 * on. Measurements then only feed the statistics: estimates from a profile stay fixed,
 * so that they can be compared with measurements. Steps contain no information about
 * links: without rates the time of a transfer is unknown.
 *
 * Belongs to the step thread.
 */
#ifndef LLS_COST_COST_H
#define LLS_COST_COST_H

#include <llmserve/host.h>

#include "core/cost/model.h"

struct lls_cost_model;

/* rates: NULL = estimates come from measurements alone; copied. */
int lls_cost_model_create(const struct lls_cost_rates *rates,
                          struct lls_cost_model **out);
void lls_cost_model_destroy(struct lls_cost_model *);

/* Returns the service handed to policies; lives as long as the model. */
const struct lls_cost *lls_cost_model_service(struct lls_cost_model *);

/* Records a measured step. */
void lls_cost_model_observe(struct lls_cost_model *, const struct lls_iteration_shape *,
                            int64_t duration_ns);
/* How well the last LLS_COST_JUDGED steps were estimated before they were measured: the
 * mean of |estimated / measured - 1| (error), and the mean of estimated / measured - 1
 * (bias). */
#define LLS_COST_JUDGED 1000
struct lls_cost_accuracy {
  uint32_t steps; /* number of steps in the means */
  double error, bias;
};
struct lls_cost_accuracy lls_cost_model_accuracy(const struct lls_cost_model *);

#endif
