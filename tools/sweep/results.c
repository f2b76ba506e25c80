/* SPDX-License-Identifier: Apache-2.0 */
/* See results.h. */
#include "tools/sweep/results.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/workload/random.h"

#define RESAMPLES  2000
#define VALUES_MAX 10000

const struct lls_result_column lls_result_columns[LLS_RESULT_COLUMNS + 1] = {
    {"req/s", "request_throughput", 1, true},
    {"tok/s", "output_throughput", 1, true},
    {"attain %", "slo_attainment.all", 100, true},
    {"goodput", "request_goodput", 1, true},
    {"TTFT p50", "median_ttft_ms", 1, false},
    {"TTFT p99", "p99_ttft_ms", 1, false},
    {"TPOT p50", "median_tpot_ms", 1, false},
    {"ITL p99", "p99_itl_ms", 1, false},
    {"ms/token", "mean_normalised_latency_ms", 1, false},
    {NULL, NULL, 0, false},
};

json_t *lls_result_read(const char *path, struct lls_error *err)
{
  json_error_t why;
  json_t *result = json_load_file(path, 0, &why);
  if (!json_is_object(result)) {
    json_decref(result);
    lls_fail(err, -EINVAL, "%s: is no result of a run: %s", path, why.text);
    return NULL;
  }
  return result;
}

double lls_result_number(const json_t *result, const char *path)
{
  char key[64];
  while (path != NULL) {
    size_t length = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    result = json_object_get(result, key);
    path = path[length] == '.' ? path + length + 1 : NULL;
  }
  if (json_is_string(result) && strcmp(json_string_value(result), "inf") == 0)
    return INFINITY;
  return json_is_number(result) ? json_number_value(result) : NAN;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double mean_of(const double *values, size_t n)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += values[i];
  return sum / (double)n;
}

static void resample(const double *values, size_t n, struct lls_interval *out)
{
  double means[RESAMPLES];
  for (size_t i = 0; i < RESAMPLES; i++) {
    struct lls_random random = lls_random_at(0, LLS_STREAM_BOOTSTRAP, i);
    means[i] = 0;
    for (size_t j = 0; j < n; j++)
      means[i] += values[lls_random_below(&random, n)] / (double)n;
  }
  qsort(means, RESAMPLES, sizeof *means, ascending);
  out->low = means[RESAMPLES / 40];
  out->high = means[RESAMPLES - 1 - RESAMPLES / 40];
}

struct lls_interval lls_bootstrap(const double *values, size_t n)
{
  struct lls_interval out = {NAN, NAN, NAN, NAN};
  double known[VALUES_MAX], squares = 0;
  size_t count = 0;
  for (size_t i = 0; i < n && count < VALUES_MAX; i++)
    if (!isnan(values[i]))
      known[count++] = values[i];
  if (count == 0)
    return out;
  out.mean = mean_of(known, count);
  if (count == 1)
    return out;
  for (size_t i = 0; i < count; i++)
    squares += (known[i] - out.mean) * (known[i] - out.mean);
  out.cv = out.mean != 0 ? sqrt(squares / (double)(count - 1)) / fabs(out.mean) : NAN;
  resample(known, count, &out);
  return out;
}
