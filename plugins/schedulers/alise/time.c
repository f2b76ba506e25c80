/* SPDX-License-Identifier: Apache-2.0 */
/* The remaining time of a job, its level, its wait; see alise.h. */
#include "alise.h"

#define SHORT 1 /* tokens of context between which alpha is measured */
#define LONG  4096
#define CHUNK 512 /* tokens of the prefill that t0 is measured with */

bool alise_learn_times(struct alise_times *t, const struct lls_cost *cost)
{
  const struct alise_times before = *t;
  int64_t prefill = cost->prefill_ns(cost->context, CHUNK, 0);
  int64_t near = cost->decode_ns(cost->context, SHORT, 1);
  int64_t far = cost->decode_ns(cost->context, LONG, 1);
  if (prefill <= 0 || near <= 0 || far < near)
    return false;
  t->t0 = (double)prefill / CHUNK;
  t->alpha = (double)(far - near) / (LONG - SHORT);
  t->beta = (double)near;
  return t->t0 != before.t0 || t->alpha != before.alpha || t->beta != before.beta;
}

double alise_remaining(const struct alise_times *t, const struct lls_request *r,
                       double left)
{
  return (lls_request_decodes(r) ? 0 : lls_request_pending(r) * t->t0) +
         (left > 1 ? left : 1) * (t->alpha * r->prompt_tokens + t->beta);
}

uint32_t alise_level(const struct alise_levels *l, double remaining)
{
  uint32_t level = 1;
  for (double bound = l->first; level < l->n && remaining > bound; bound *= l->ratio)
    level++;
  return level;
}

int64_t alise_ewt(const struct alise_waits *w, uint32_t level, int64_t until_promotion)
{
  int64_t sum = 0;
  for (uint32_t i = 1; i < level; i++)
    sum += w->of_level[i];
  until_promotion = until_promotion > 0 ? until_promotion : 0;
  return sum < until_promotion ? sum : until_promotion;
}
