/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C(Ln, La, Mcpu), the estimated time of an iteration (section 4.1):
 *
 *   exec(phase) = a0 Ln + a1 Ln La + beta     for prompts and for decodes, 0 if none
 *   t_exec = exec(prompts) + exec(decodes)
 *   t_swap = c0 Mcpu + c1                     0 if nothing is swapped in
 *   C = max(t_exec, t_swap)                   copies run concurrently with computing
 *
 * Ln tokens computed, La context of the phase. Missing blocks of a request that runs in
 * this very step cannot be copied concurrently: the t_swap of these is added. C is
 * computed for every candidate, so a batch is stored as sums: a candidate costs a few
 * products, independent of the batch's size.
 */
#include "bros.h"

static double exec(const struct bros_line *line, const struct bros_phase *p, bool sum)
{
  double pairs = sum ? p->products : p->tokens * p->context;
  return p->n > 0 ? line->a0 * p->tokens + line->a1 * pairs + line->beta : 0;
}

static double swap(const struct bros_cost *c, double slots)
{
  return slots > 0 ? c->c0 * slots + c->c1 : 0;
}

double bros_time(const struct bros_cost *c, const struct bros_load *l)
{
  double compute = exec(&c->prefill, &l->prefill, c->prefill_sum) +
                   exec(&c->decode, &l->decode, c->decode_sum);
  double beside = swap(c, l->beside);
  return (compute > beside ? compute : beside) + swap(c, l->missing);
}

/* Adds a candidate's tokens and context to a load: the context of a prompt includes its
 * own tokens, that of a decode is what is cached. */
static void add(struct bros_load *l, const struct bros_candidate *c, double sign)
{
  struct bros_phase *p = c->prompt ? &l->prefill : &l->decode;
  double tokens = c->tokens, context = c->context + (c->prompt ? tokens : 0);
  p->n += sign;
  p->tokens += sign * tokens;
  p->context += sign * context;
  p->products += sign * tokens * context;
  l->missing += sign * c->missing;
}

void bros_load_add(struct bros_load *l, const struct bros_candidate *c)
{
  add(l, c, 1);
}

void bros_load_remove(struct bros_load *l, const struct bros_candidate *c)
{
  add(l, c, -1);
}

double bros_time_alone(const struct bros_cost *cost, const struct bros_candidate *c)
{
  struct bros_load l = {0};
  bros_load_add(&l, c);
  return bros_time(cost, &l);
}
