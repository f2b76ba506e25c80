/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/samples.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BOUNDS 64

struct sample {
  const char *labels; /* begins with "{", or is empty up to the space */
  size_t n;           /* bytes of labels */
  double value;
};

/* Finds the next sample of the series. Returns where to search on, or NULL. */
static const char *next(const char *at, const char *series, struct sample *out)
{
  size_t n = strlen(series);
  for (; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
    at += *at == '\n';
    if (strncmp(at, series, n) != 0 || (at[n] != '{' && at[n] != ' '))
      continue;
    size_t line = strcspn(at, "\n"), end = line;
    while (end > n && at[end] != ' ') /* labels may contain spaces, values do not */
      end--;
    *out =
        (struct sample){.labels = at + n, .n = end - n, .value = strtod(at + end, NULL)};
    return at + line;
  }
  return NULL;
}

static bool has_label(const struct sample *s, const char *label)
{
  return label == NULL || memmem(s->labels, s->n, label, strlen(label)) != NULL;
}

double ctl_sum(const char *page, const char *series, const char *label)
{
  struct sample s;
  double sum = 0;
  for (const char *at = page; (at = next(at, series, &s)) != NULL;)
    sum += has_label(&s, label) && isfinite(s.value) ? s.value : 0;
  return sum;
}

struct buckets {
  unsigned n;
  double bound[MOST_BOUNDS], count[MOST_BOUNDS]; /* count: cumulative */
};

/* Adds the counts of a page, times `sign`. A page of several engines has each bound
 * several times. */
static void add(struct buckets *b, const char *page, const char *histogram, double sign)
{
  static const char le[] = "le=\"";
  char series[128];
  struct sample s;
  snprintf(series, sizeof series, "%s_bucket", histogram);
  for (const char *at = page; at != NULL && (at = next(at, series, &s)) != NULL;) {
    const char *bound = memmem(s.labels, s.n, le, sizeof le - 1);
    if (bound == NULL)
      continue;
    double value = strtod(bound + sizeof le - 1, NULL); /* "+Inf" too */
    unsigned i = 0;
    while (i < b->n && b->bound[i] != value)
      i++;
    if (i == MOST_BOUNDS)
      continue;
    b->n += i == b->n;
    b->bound[i] = value;
    b->count[i] += sign * s.value;
  }
}

double ctl_quantile(const char *page, const char *before, const char *histogram, double q)
{
  struct buckets b = {0};
  add(&b, page, histogram, 1);
  add(&b, before, histogram, -1);
  if (b.n < 2 || !(b.count[b.n - 1] > 0))
    return NAN;
  unsigned i = 0;
  double rank = q * b.count[b.n - 1];
  while (i < b.n - 1 && b.count[i] < rank)
    i++;
  if (i == b.n - 1) /* beyond the last bound */
    return b.bound[b.n - 2];
  double low = i > 0 ? b.bound[i - 1] : 0, below = i > 0 ? b.count[i - 1] : 0;
  return low + (b.bound[i] - low) * (rank - below) / (b.count[i] - below);
}
