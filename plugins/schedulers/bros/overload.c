/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overload: more requests than can meet their deadlines, whichever are chosen.
 *
 * T_res is the least slack of all requests that can still be in time (section 4.1), so a
 * request with little time left keeps every step short. That is right if there is time
 * for all requests. Under overload a short step pays its fixed cost for a few tokens, and
 * one request makes all others late: soon no deadline is met at all. So the tightest
 * requests are left out of the minimum and count as missed. Their number maximises the
 * tokens per second that are in time:
 *
 *   rate(T) = n(T) / C(n(T))    n: requests with slack >= T, in order of it, while C <= T
 *
 * over T of BINS classes of slack. This is done only if rate(T_res) is less than the
 * required rate: a token of each request in each of its periods.
 *
 * It is off by default: since all begun requests are kept in time, new prompts wait
 * longer. Gains and losses: experiments/papers/bros, part memory.
 */
#include "bros.h"

#include <math.h>

enum { BINS = 32 };

struct bins { /* attainable requests, by slack */
  struct bros_load load[BINS];
  double n[BINS], least[BINS]; /* requests, and the least slack */
  double wanted;               /* tokens a second */
};

static uint32_t bin_of(const struct bros *b, const struct bros_candidate *c)
{
  double share = c->slack / ((double)b->params.tpot_slo * 1e-9);
  return share >= 1 ? BINS - 1 : (uint32_t)(share * BINS);
}

static void fill(const struct bros *b, struct bins *bins)
{
  double ttft = (double)b->params.ttft_slo * 1e-9,
         tpot = (double)b->params.tpot_slo * 1e-9;
  for (uint32_t i = 0; i < BINS; i++)
    bins->least[i] = INFINITY;
  for (uint32_t i = 0; i < b->realtime.n; i++) {
    const struct bros_candidate *c = b->realtime.entries[i].item;
    if (!c->attainable)
      continue;
    uint32_t bin = bin_of(b, c);
    bros_load_add(&bins->load[bin], c);
    bins->n[bin]++;
    bins->least[bin] = fmin(bins->least[bin], c->slack);
    bins->wanted += 1 / (c->prompt ? ttft : tpot);
  }
}

static void merge_phase(struct bros_phase *to, const struct bros_phase *from)
{
  to->n += from->n;
  to->tokens += from->tokens;
  to->context += from->context;
  to->products += from->products;
}

static void merge(struct bros_load *to, const struct bros_load *from)
{
  merge_phase(&to->prefill, &from->prefill);
  merge_phase(&to->decode, &from->decode);
  to->missing += from->missing;
}

/* Returns the tokens a second that are in time if the step ends with the least slack of
 * a bin. */
static double rate(const struct bros *b, const struct bins *bins, uint32_t bin)
{
  struct bros_load load = {0};
  double n = 0, before = 0, end = bins->least[bin];
  for (; bin < BINS; bin++) {
    if (bins->n[bin] == 0)
      continue;
    merge(&load, &bins->load[bin]);
    double after = bros_time(&b->cost, &load);
    if (after > end)
      return (n + bins->n[bin] * (end - before) / (after - before)) / end;
    before = after;
    n += bins->n[bin];
  }
  return n / before;
}

double bros_relaxed(const struct bros *b)
{
  struct bins bins = {.wanted = 0};
  if (!b->params.overload || !b->cost.known || b->n_attainable < 2)
    return b->t_res;
  fill(b, &bins);
  double best = -1, t_res = b->t_res;
  for (uint32_t i = 0; i < BINS; i++) {
    if (bins.n[i] == 0)
      continue;
    double r = rate(b, &bins, i);
    if (best < 0 && r >= bins.wanted)
      break;
    if (r > best) {
      best = r;
      t_res = bins.least[i];
    }
  }
  return t_res;
}
