/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worth of predictions: the distribution of actual / predicted length over all ended
 * answers, of all predictors. A job that has g of Lh tokens belongs to the answers longer
 * than g / Lh of their prediction, and its remaining length is estimated from these.
 *
 * The estimate is not their mean. Of two jobs with the same mean, the one that may end
 * soon should run: if it does not end, it can still be stopped. Gittins (1979): the index
 * is the least, over all d, of
 *
 *   expected time until it ends or has run for d / probability that it ends within d
 *
 * which is Lh - g where predictions are true, and the mean where the wait tells nothing.
 * (Aalto, Ayesta and Righter, 2009, for queues.)
 *
 * Ratios are kept in bins of an eighth of a doubling, each with the mean of its ratios,
 * so that exact predictions remain exact to the token. After 4,096 answers the older ones
 * count half as much with each 2,048 new ones.
 */
#include "alise.h"

#include <math.h>

#define PER_DOUBLING 8
#define FIRST        64 /* answers before the first estimate */
#define MOST         4096

static uint32_t bin_of(double ratio)
{
  double bin = PER_DOUBLING * log2(ratio) + (ALISE_RATIOS - 1) / 2.0;
  if (!(bin > 0))
    return 0;
  return bin < ALISE_RATIOS - 1 ? (uint32_t)bin : ALISE_RATIOS - 1;
}

/* Returns the line of the best time to stop. x = g / Lh; answers of bins from `first`
 * on remain, each a_j times as long as predicted. Running until a_k costs (sum of
 * min(a_j, a_k) - x) / number of j <= k: the expected time divided by the probability
 * to end. */
static struct alise_line best_line(const struct alise_worth *w, uint32_t first, double x)
{
  struct alise_line best = {0, 0};
  double all = 0, n = 0, sum = 0;
  for (uint32_t i = first; i < ALISE_RATIOS; i++)
    all += w->n[i];
  for (uint32_t k = first; k < ALISE_RATIOS; k++) {
    if (w->n[k] <= 0)
      continue;
    n += w->n[k];
    sum += w->sum[k];
    const struct alise_line line = {(sum + (all - n) * w->sum[k] / w->n[k]) / n, all / n};
    if (best.at <= 0 || line.at - line.slope * x < best.at - best.slope * x)
      best = line;
  }
  return best;
}

/* Computes `left` for each bin of g / Lh: a job in a bin ends in a later one, and a job
 * without tokens may end in any. */
static void make_lines(struct alise_worth *w)
{
  w->left[0] = best_line(w, 0, 0);
  for (uint32_t i = 1; i < ALISE_RATIOS; i++)
    w->left[i] = best_line(w, i + 1, exp2((i - (ALISE_RATIOS - 1) / 2.0) / PER_DOUBLING));
}

static void forget_half(struct alise_worth *w)
{
  for (uint32_t i = 0; i < ALISE_RATIOS; i++) {
    w->n[i] /= 2;
    w->sum[i] /= 2;
  }
  w->seen /= 2;
}

bool alise_worth_learn(struct alise_worth *w, uint32_t predicted, uint32_t actual)
{
  if (predicted == 0 || actual == 0)
    return false;
  double ratio = (double)actual / predicted;
  uint32_t bin = bin_of(ratio);
  w->n[bin]++;
  w->sum[bin] += ratio;
  w->next = w->next > 0 ? w->next : FIRST;
  if (++w->seen < w->next)
    return false;
  make_lines(w);
  if (w->seen >= MOST)
    forget_half(w);
  w->next = 2 * w->seen;
  return true;
}

double alise_worth_left(const struct alise_worth *w, uint32_t length, uint32_t generated)
{
  uint32_t bin = generated > 0 ? bin_of((double)generated / length) : 0;
  const struct alise_line *line = &w->left[bin];
  return line->at * length - line->slope * generated;
}
