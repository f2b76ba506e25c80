/* SPDX-License-Identifier: Apache-2.0 */
/*
 * min_p, top_k and top_p of a row, in one search.
 *
 * All three filters keep the likeliest tokens down to some boundary, so the boundary is
 * searched instead of sorting the vocabulary: tokens above a falling threshold are
 * gathered until they are certainly enough, and among them a quickselect finds where
 * the count (top_k) or the mass (top_p) is reached. Equal probabilities are ordered by
 * id.
 */
#include "kernels/cpu/sample.h"

/* Gathers the tokens of weight `least` or more (but above 0), by id; *mass is their
 * sum. */
static size_t gather(const struct lls_cpu_sample_row *r, float least, double *mass)
{
  size_t n = 0;
  *mass = 0;
  for (size_t i = 0; i < r->vocab; i++) {
    if (r->p[i] >= least && r->p[i] > 0) {
      r->chosen[n++] = (struct lls_cpu_candidate){r->p[i], (int32_t)i};
      *mass += (double)r->p[i];
    }
  }
  return n;
}

static void swap(struct lls_cpu_candidate *a, struct lls_cpu_candidate *b)
{
  struct lls_cpu_candidate c = *a;
  *a = *b;
  *b = c;
}

/* Partitions c[low..high] around a pivot in the order of `before`; returns its final
 * index. */
static size_t partition(struct lls_cpu_candidate *c, size_t low, size_t high)
{
  size_t middle = low + (high - low) / 2, last = high - 1, to = low;
  if (lls_cpu_candidate_before(c[middle], c[low]))
    swap(&c[middle], &c[low]);
  if (lls_cpu_candidate_before(c[last], c[low]))
    swap(&c[last], &c[low]);
  if (lls_cpu_candidate_before(c[middle], c[last])) /* the median goes last */
    swap(&c[middle], &c[last]);
  for (size_t i = low; i < last; i++) {
    if (lls_cpu_candidate_before(c[i], c[last]))
      swap(&c[i], &c[to++]);
  }
  swap(&c[to], &c[last]);
  return to;
}

static double measure(const struct lls_cpu_candidate *c, size_t low, size_t high,
                      const float *mass)
{
  double sum = mass != NULL ? 0 : (double)(high - low);
  for (size_t i = low; mass != NULL && i < high; i++)
    sum += (double)mass[c[i].id];
  return sum;
}

size_t lls_cpu_select_until(struct lls_cpu_candidate *c, size_t n, const float *mass,
                            double target)
{
  size_t low = 0, high = n; /* the answer is in (low, high] */
  double below = 0;         /* measure of [0, low) */
  while (high - low > 1) {
    size_t pivot = partition(c, low, high);
    double up_to_pivot = below + measure(c, low, pivot, mass);
    double with_pivot = up_to_pivot + measure(c, pivot, pivot + 1, mass);
    if (pivot > low && up_to_pivot >= target) {
      high = pivot;
    } else if (with_pivot >= target || pivot + 1 == high) {
      return pivot + 1;
    } else {
      low = pivot + 1;
      below = with_pivot;
    }
  }
  return high;
}

/* The threshold of weight falls until the candidates suffice or are all. */
size_t lls_cpu_gather_until(const struct lls_cpu_sample_row *r, float least, bool mass,
                            double target, double *found)
{
  for (float weight = 0x1p-8f; weight > least && weight > 0x1p-64f; weight *= 0x1p-8f) {
    size_t n = gather(r, weight, found);
    if ((mass ? *found : (double)n) >= target)
      return n;
  }
  return gather(r, least, found);
}

size_t lls_cpu_sample_filter(const struct lls_cpu_sample_row *r, double total)
{
  const struct lls_sampling *s = r->params;
  bool by_count = s->top_k > 0 && (size_t)s->top_k < r->vocab, by_mass = s->top_p < 1;
  float least = s->min_p < 1 ? s->min_p : 1; /* the likeliest token weighs 1 */
  size_t n;
  double mass;
  if (!by_count && !by_mass)
    return gather(r, least, &mass);
  if (least > 0) /* top_p is a share of the mass that min_p leaves */
    gather(r, least, &total);
  if (by_count) {
    n = lls_cpu_gather_until(r, least, false, s->top_k, &mass);
    n = lls_cpu_select_until(r->chosen, n, NULL, s->top_k);
    total = measure(r->chosen, 0, n, r->p);
  } else {
    n = lls_cpu_gather_until(r, least, true, (double)s->top_p * total, &mass);
  }
  if (by_mass)
    n = lls_cpu_select_until(r->chosen, n, r->p, (double)s->top_p * total);
  struct lls_cpu_candidate last = r->chosen[n - 1];
  size_t tied = gather(r, last.p, &mass), kept = 0;
  for (size_t i = 0; i < tied; i++) {
    if (!lls_cpu_candidate_before(last, r->chosen[i]))
      r->chosen[kept++] = r->chosen[i];
  }
  return kept;
}
