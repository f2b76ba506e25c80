/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns the workload, for which the policy has no settings: how long answers are,
 * whether memory is short, how much memory streams need to grow into, how much each
 * tenant has used. All are moving averages except the headroom, which is raised fast when
 * a stream has lost its memory and lowered slowly: dual ascent with two step sizes.
 */
#include "worth.h"

#include <math.h>

#define FEW_TOKENS    4
#define MOST_HEADROOM 512

static const double per_answer = 0.03, per_arrival = 0.03, per_step = 0.02;
static const double remembered_ns = 60e9; /* decay time of tenants' use */
static const double flow_ns = 20e9;       /* decay time of freed memory */

void worth_learn_begin(struct worth_learned *l)
{
  *l = (struct worth_learned){.output = 128, .error = 64, .headroom = FEW_TOKENS};
  for (uint32_t i = 0; i < WORTH_TENANTS; i++)
    l->weight[i] = 1;
}

void worth_learn_arrival(struct worth_learned *l, const struct lls_request *r,
                         double weight)
{
  const struct lls_slo *slo = &r->slo;
  bool any = slo->ttft_ns != LLS_NEVER || slo->tbt_ns != LLS_NEVER ||
             slo->tpot_ns != LLS_NEVER || slo->completion_ns != LLS_NEVER;
  l->deadlines += per_arrival * (any - l->deadlines);
  l->weight[r->tenant % WORTH_TENANTS] = weight;
}

void worth_learn_end(struct worth_learned *l, const struct lls_request *r)
{
  double error = fabs(r->generated_tokens - worth_expected(l, r));
  l->error += per_answer * (error - l->error);
  l->output += per_answer * (r->generated_tokens - l->output);
  l->freed += lls_request_length(r);
  l->ended++;
}

/* ---- tenants ----------------------------------------------------------------------- */

static void charge(struct worth_learned *l, const struct lls_step_report *report)
{
  double kept = exp(-(double)(report->ended_ns - report->started_ns) / remembered_ns);
  double sum = 0, tenants = 0;
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_step_result *x = &report->results[i];
    uint32_t tenant = x->request->tenant % WORTH_TENANTS;
    l->used[tenant] += (x->tokens + x->emitted) / l->weight[tenant];
  }
  for (uint32_t i = 0; i < WORTH_TENANTS; i++) {
    l->used[i] *= kept;
    sum += l->used[i];
    tenants += l->used[i] * l->weight[i] > 1;
  }
  l->share = tenants > 1 ? sum / tenants : 0;
}

double worth_excess(const struct worth_learned *l, uint32_t tenant)
{
  double used = l->used[tenant % WORTH_TENANTS];
  return l->share > 0 && used > l->share ? used / l->share - 1 : 0;
}

/* ---- steps ------------------------------------------------------------------------- */

void worth_learn_step(struct worth_learned *l, const struct lls_step_report *report)
{
  double taken = (double)(report->ended_ns - report->started_ns);
  l->step_ns += (l->step_ns > 0 ? per_step : 1) * (taken - l->step_ns);
  double kept = exp(-taken / flow_ns);
  l->freed *= kept;
  l->ended *= kept;
  l->freed_ns = kept * l->freed_ns + taken;
  charge(l, report);
}

void worth_learn_plan(struct worth_learned *l, bool short_of_memory, uint32_t preempted)
{
  l->memory_price += per_step * (short_of_memory - l->memory_price);
  if (preempted > 0)
    l->headroom = fmin(l->headroom * 1.2, MOST_HEADROOM);
  else
    l->headroom = fmax(l->headroom * 0.998, FEW_TOKENS);
}

/* ---- answers ----------------------------------------------------------------------- */

double worth_expected(const struct worth_learned *l, const struct lls_request *r)
{
  const struct lls_prediction *p = &r->prediction;
  bool told =
      p->length > 0 && p->source != LLS_PREDICTED_NOT && p->source != LLS_PREDICTED_PRIOR;
  return told ? p->length : l->output;
}

/* Returns the expected tokens left. The longer an answer has become, the more are
 * expected: lengths have heavy tails. */
double worth_left(const struct worth_learned *l, const struct lls_request *r)
{
  double done = r->generated_tokens, length = worth_expected(l, r);
  double left = fmax(length - done, fmax(0.3 * done, 1));
  double most = (double)r->max_new_tokens - done;
  return most > 0 && left > most ? most : left;
}
