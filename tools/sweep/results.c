/* SPDX-License-Identifier: Apache-2.0 */
/* Reads finished runs; see results.h. */
#include "tools/sweep/results.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/json_parse.h"
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

/* ---- files ------------------------------------------------------------------------- */

static int is_result(const struct dirent *entry)
{
  size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0 &&
         strcmp(entry->d_name, LLS_FOUND_RATES) != 0;
}

static int add_file(struct lls_result_files *files, const char *name, const char *folder,
                    const char *file, struct lls_error *err)
{
  struct lls_result_file *list = reallocarray(files->list, files->n + 1, sizeof *list);
  if (list == NULL)
    return lls_fail(err, -ENOMEM, "no memory for results");
  files->list = list;
  snprintf(list[files->n].name, sizeof list[files->n].name, "%s", name);
  if (asprintf(&list[files->n].path, "%s%s%s", folder, file[0] != '\0' ? "/" : "", file) <
      0)
    return lls_fail(err, -ENOMEM, "no memory for results");
  files->n++;
  return 0;
}

int lls_result_files_add(struct lls_result_files *files, const char *name,
                         const char *path, struct lls_error *err)
{
  struct stat st;
  struct dirent **entries;
  size_t before = files->n;
  int rc = 0;
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
    return add_file(files, name, path, "", err);
  int n = scandir(path, &entries, is_result, alphasort);
  if (n < 0)
    return lls_fail(err, -EINVAL, "%s: cannot be read: %s", path, strerror(errno));
  for (int i = 0; i < n; i++) {
    if (rc == 0 && files->n < VALUES_MAX)
      rc = add_file(files, name, path, entries[i]->d_name, err);
    free(entries[i]);
  }
  free(entries);
  return rc == 0 && files->n == before
             ? lls_fail(err, -EINVAL, "%s: has no results (*.json)", path)
             : rc;
}

void lls_result_files_free(struct lls_result_files *files)
{
  while (files->n > 0)
    free(files->list[--files->n].path);
  free(files->list);
  files->list = NULL;
}

json_t *lls_result_read(const char *path, struct lls_error *err)
{
  json_error_t why;
  json_t *result = lls_json_parse_file(path, 0, &why);
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

/* Sets the mean and variation of the known values; returns their number. */
static size_t summarise(const double *values, size_t n, double known[VALUES_MAX],
                        struct lls_interval *out)
{
  double squares = 0;
  size_t count = 0;
  *out = (struct lls_interval){NAN, NAN, NAN, NAN};
  for (size_t i = 0; i < n && count < VALUES_MAX; i++)
    if (!isnan(values[i]))
      known[count++] = values[i];
  if (count == 0)
    return 0;
  out->mean = mean_of(known, count);
  for (size_t i = 0; i < count; i++)
    squares += (known[i] - out->mean) * (known[i] - out->mean);
  if (count > 1 && out->mean != 0)
    out->cv = sqrt(squares / (double)(count - 1)) / fabs(out->mean);
  return count;
}

struct lls_interval lls_bootstrap(const double *values, size_t n)
{
  struct lls_interval out;
  double known[VALUES_MAX];
  size_t count = summarise(values, n, known, &out);
  if (count > 1)
    resample(known, count, &out);
  return out;
}

/* Returns the 97.5th percentile of Student's t. Beyond the table it uses the expansion
 * in 1 / freedom, whose error is below 0.1 % from 30 on. */
static double student_t(size_t freedom)
{
  static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom <= sizeof table / sizeof *table)
    return table[freedom - 1];
  return 1.95996 + 2.37227 / (double)freedom;
}

struct lls_interval lls_student(const double *values, size_t n)
{
  struct lls_interval out;
  double known[VALUES_MAX], squares = 0;
  size_t count = summarise(values, n, known, &out);
  if (count < 2)
    return out;
  for (size_t i = 0; i < count; i++)
    squares += (known[i] - out.mean) * (known[i] - out.mean);
  double half =
      student_t(count - 1) * sqrt(squares / (double)(count - 1) / (double)count);
  out.low = out.mean - half;
  out.high = out.mean + half;
  return out;
}
