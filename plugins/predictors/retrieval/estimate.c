/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths from neighbours, from a logarithm or both, and how good they were; see
 * estimate.h. */
#include "plugins/predictors/retrieval/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EIGHTY_PERCENT 1.2816 /* deviations on each side of a normal that hold 80 % */
#define MEMORY         256    /* predictions the running means look back on */
#define FIRST_MEDIAN   256    /* tokens, before the first observation */
#define MODEL_WEIGHT   2      /* neighbours of cosine 1 that the length model counts as */

/* Rounds half up, to 1..most. */
static uint32_t to_length(double x, uint32_t most)
{
  if (!(x >= 1.5))
    return 1;
  return x + 0.5 >= most ? most : (uint32_t)(x + 0.5);
}

/*
 * Sets Lh = sum(sim L) / sum(sim). The listing in the paper leaves the divisor out, but
 * its text says weighted average. The confidence is the mean similarity, reduced by the
 * neighbours' deviation.
 */
bool estimate_from_neighbours(const struct neighbour *near, uint32_t n, double s0,
                              uint32_t max_new_tokens, struct lls_prediction *out)
{
  double weights = 0, sum = 0, squares = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    double w = near[i].similarity, length = near[i].length;
    if (w < s0 || w <= 0)
      continue;
    kept++;
    weights += w;
    sum += w * length;
    squares += w * length * length;
  }
  if (kept == 0)
    return false;
  double mean = sum / weights, variance = squares / weights - mean * mean;
  double deviation = variance > 0 ? sqrt(variance) : 0;
  double similarity = weights / kept < 1 ? weights / kept : 1;
  out->length = to_length(mean, max_new_tokens);
  out->low = to_length(mean - EIGHTY_PERCENT * deviation, max_new_tokens);
  out->high = to_length(mean + EIGHTY_PERCENT * deviation, max_new_tokens);
  out->confidence = (float)(similarity / (1 + deviation / mean));
  return true;
}

bool estimate_from_itself(const struct neighbour *near, uint32_t n,
                          uint32_t max_new_tokens, struct lls_prediction *out)
{
  if (n == 0 || near[0].similarity < ESTIMATE_SAME)
    return false;
  out->length = out->low = out->high = to_length(near[0].length, max_new_tokens);
  out->confidence = 1;
  return true;
}

/* Sets the prediction whose logarithm has this mean and deviation. trust: the
 * confidence without deviation. */
static void set_from_log(double mean, double deviation, double trust,
                         uint32_t max_new_tokens, struct lls_prediction *out)
{
  out->length = to_length(exp(mean), max_new_tokens);
  out->low = to_length(exp(mean - EIGHTY_PERCENT * deviation), max_new_tokens);
  out->high = to_length(exp(mean + EIGHTY_PERCENT * deviation), max_new_tokens);
  out->confidence = (float)(trust / (1 + deviation));
}

/*
 * Estimates by the mean of the logarithms, weighted by similarity: neighbours are few and
 * off by a factor, not by a number of tokens, and so is the length model, whose errors
 * are independent. Five neighbours alone are off by 5 to 7 % more than both together, the
 * model alone by 1 to 4 % (deviation of the logarithm,
 * experiments/results/predictor-*.md).
 */
bool estimate_from_both(const struct neighbour *near, uint32_t n, double s0, double mean,
                        double deviation, uint32_t max_new_tokens,
                        struct lls_prediction *out)
{
  double weights = MODEL_WEIGHT, sum = weights * mean;
  double squares = weights * (mean * mean + deviation * deviation);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    double w = near[i].similarity, x = log(near[i].length > 0 ? near[i].length : 1);
    if (w < s0 || w <= 0)
      continue;
    kept++;
    weights += w;
    sum += w * x;
    squares += w * x * x;
  }
  if (kept == 0)
    return false;
  double variance = squares / weights - sum * sum / (weights * weights);
  double similarity = (weights - MODEL_WEIGHT) / kept;
  set_from_log(sum / weights, variance > 0 ? sqrt(variance) : 0,
               similarity < 1 ? similarity : 1, max_new_tokens, out);
  return true;
}

void estimate_from_log(double mean, double deviation, uint32_t max_new_tokens,
                       struct lls_prediction *out)
{
  set_from_log(mean, deviation, 0.5, max_new_tokens, out);
}

/* ---- how good it was ---------------------------------------------------------- */

void judge_init(struct judge *j)
{
  *j = (struct judge){.median = FIRST_MEDIAN};
}

/* Returns a mean that forgets: of all at first, later of about the last MEMORY. */
static double blend(double mean, double value, uint64_t n)
{
  return mean + (value - mean) / (double)(n < MEMORY ? n : MEMORY);
}

void judge_prediction(struct judge *j, uint32_t source)
{
  j->predicted++;
  j->neighbours = blend(j->neighbours, source == LLS_PREDICTED_HISTORY, j->predicted);
}

void judge_answer(struct judge *j, uint32_t predicted, uint32_t actual, uint32_t bin)
{
  double off = predicted > actual ? predicted - actual : actual - predicted;
  j->judged++;
  j->error = blend(j->error, off / (actual > 0 ? actual : 1), j->judged);
  j->accuracy = blend(j->accuracy, predicted / bin == actual / bin, j->judged);
}

static int by_length(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

void judge_length(struct judge *j, uint32_t actual)
{
  uint32_t sorted[JUDGE_LENGTHS];
  j->lengths[j->n_lengths++ % JUDGE_LENGTHS] = actual;
  size_t n = j->n_lengths < JUDGE_LENGTHS ? j->n_lengths : JUDGE_LENGTHS;
  memcpy(sorted, j->lengths, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_length);
  j->median = sorted[n / 2] > 0 ? sorted[n / 2] : 1;
}
