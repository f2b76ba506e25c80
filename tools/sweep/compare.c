/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two sets of finished runs. A side is a result file or a folder of them;
 * files whose names differ only in the seed are repeats of one point, and points of the
 * same name are compared.
 *
 * Runs of the same seed have the same requests. So if both sides have three or more
 * seeds in common, the differences between paired runs are compared: a side wins a line
 * if the 95 % interval of the mean difference (paired t) excludes zero. The variation
 * between seeds then does not hide a policy's effect. Without common seeds a side wins
 * where both have three runs or more and their 95 % intervals do not overlap.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sweep/results.h"
#include "tools/sweep/sweep.h"

#define LEAST 3 /* least runs of a side; fewer give no estimate of their spread */

struct file {
  char point[LLS_RESULT_NAME]; /* name of the file without folder, extension and seed */
  double seed;                 /* NaN: not known */
  json_t *result;
};

struct side {
  char path[4096];
  struct file *files; /* (n), by name */
  size_t n;
};

/* ---- reading ----------------------------------------------------------------------- */

/* Finds a file's point: "FOLDER/request-rate=2_seed=1.json" belongs to
 * "request-rate=2". */
static void name_point(const char *path, struct file *out)
{
  const char *slash = strrchr(path, '/');
  const char *file = slash != NULL ? slash + 1 : path;
  size_t length = strlen(file), used = 0;
  if (length > 5 && strcmp(file + length - 5, ".json") == 0)
    length -= 5;
  for (const char *at = file, *end = file + length; at < end;) {
    size_t part = (size_t)(end - at);
    const char *next = memchr(at, '_', part);
    part = next != NULL ? (size_t)(next - at) : part;
    if (strncmp(at, "seed=", 5) == 0)
      out->seed = strtod(at + 5, NULL);
    else if (used + part + 2 < sizeof out->point)
      used += (size_t)snprintf(out->point + used, sizeof out->point - used, "%s%.*s",
                               used > 0 ? "_" : "", (int)part, at);
    at += part + 1;
  }
}

static int read_side(struct side *side, struct lls_error *err)
{
  struct lls_result_files files = {0};
  int rc = lls_result_files_add(&files, "", side->path, err);
  side->files = calloc(files.n + 1, sizeof *side->files);
  if (rc == 0 && side->files == NULL)
    rc = lls_fail(err, -ENOMEM, "no memory for results");
  for (size_t i = 0; rc == 0 && i < files.n; i++) {
    struct file *file = &side->files[side->n];
    file->result = lls_result_read(files.list[i].path, err);
    rc = file->result != NULL ? 0 : -EINVAL;
    if (rc < 0)
      break;
    file->seed = lls_result_number(file->result, "seed");
    name_point(files.list[i].path, file);
    side->n++;
  }
  if (files.n == 1 && rc == 0)
    side->files[0].point[0] = '\0';
  lls_result_files_free(&files);
  return rc;
}

static void free_side(struct side *side)
{
  while (side->n > 0)
    json_decref(side->files[--side->n].result);
  free(side->files);
}

/* ---- comparing --------------------------------------------------------------------- */

static bool one_point(const struct side *side)
{
  for (size_t i = 1; i < side->n; i++)
    if (strcmp(side->files[i].point, side->files[0].point) != 0)
      return false;
  return true;
}

static bool is_of(const struct file *file, const char *point)
{
  return point == NULL || strcmp(file->point, point) == 0;
}

static double value_of(const struct file *file, const struct lls_result_column *column)
{
  return column->scale * lls_result_number(file->result, column->path);
}

/* Collects a number from the runs of a point, and sets *out to its interval. Returns
 * how many runs have it. */
static size_t measure(const struct side *side, const char *point,
                      const struct lls_result_column *column, struct lls_interval *out)
{
  double *values = calloc(side->n, sizeof *values);
  size_t n = 0;
  for (size_t i = 0; values != NULL && i < side->n; i++) {
    double value = value_of(&side->files[i], column);
    if (is_of(&side->files[i], point) && !isnan(value))
      values[n++] = value;
  }
  *out = lls_bootstrap(values, n);
  free(values);
  return n;
}

/* Collects the differences B - A over the common seeds, and sets *out to their
 * interval. Returns the number of seeds. */
static size_t measure_pairs(const struct side *a, const struct side *b, const char *point,
                            const struct lls_result_column *column,
                            struct lls_interval *out)
{
  double *differences = calloc(a->n, sizeof *differences);
  size_t n = 0;
  for (size_t i = 0; differences != NULL && i < a->n; i++)
    for (size_t j = 0; is_of(&a->files[i], point) && j < b->n; j++) {
      if (!is_of(&b->files[j], point) || !(a->files[i].seed == b->files[j].seed))
        continue;
      double difference = value_of(&b->files[j], column) - value_of(&a->files[i], column);
      if (!isnan(difference))
        differences[n++] = difference;
      break;
    }
  *out = lls_student(differences, n);
  free(differences);
  return n;
}

static const char *winner(const struct lls_result_column *column, bool b_is_more)
{
  return b_is_more == column->more_is_better ? "B is better" : "A is better";
}

static const char *verdict(const struct lls_result_column *column,
                           const struct lls_interval *a, const struct lls_interval *b,
                           size_t fewest)
{
  if (fewest < LEAST)
    return "too few runs";
  if (a->low <= b->high && b->low <= a->high)
    return "no winner";
  return winner(column, b->mean > a->mean);
}

static void print_side(FILE *out, const struct lls_interval *x, size_t n)
{
  if (n > 1)
    fprintf(out, " %10.5g [%.5g, %.5g]", x->mean, x->low, x->high);
  else
    fprintf(out, " %10.5g", x->mean);
}

/* Prints B's difference in percent of A's mean, and which side wins. */
static void print_verdict(FILE *out, const struct side *a, const struct side *b,
                          const char *point, const struct lls_result_column *c)
{
  struct lls_interval x, y, difference;
  size_t n = measure(a, point, c, &x), m = measure(b, point, c, &y);
  size_t pairs = measure_pairs(a, b, point, c, &difference);
  if (pairs < LEAST) {
    fprintf(out, "  %+.1f %%  %s\n", 100 * (y.mean / x.mean - 1),
            verdict(c, &x, &y, n < m ? n : m));
    return;
  }
  bool apart = difference.low > 0 || difference.high < 0;
  fprintf(out, "  %+.1f %% [%+.1f, %+.1f]  %s, %zu seeds\n",
          100 * difference.mean / fabs(x.mean), 100 * difference.low / fabs(x.mean),
          100 * difference.high / fabs(x.mean),
          apart ? winner(c, difference.mean > 0) : "no winner", pairs);
}

/* point NULL: all files of a side. Returns false if a side has no such file. */
static bool print_point(FILE *out, const struct side *a, const struct side *b,
                        const char *point)
{
  bool any = false;
  for (const struct lls_result_column *c = lls_result_columns; c->title != NULL; c++) {
    struct lls_interval x, y;
    size_t n = measure(a, point, c, &x), m = measure(b, point, c, &y);
    if (n == 0 || m == 0)
      continue;
    if (!any && point != NULL && point[0] != '\0')
      fprintf(out, "%s\n", point);
    any = true;
    fprintf(out, "%-10s A", c->title);
    print_side(out, &x, n);
    fputs("  B", out);
    print_side(out, &y, m);
    print_verdict(out, a, b, point, c);
  }
  return any;
}

static int compare(FILE *out, const struct side *a, const struct side *b,
                   struct lls_error *err)
{
  bool any = false;
  fprintf(out, "A: %s, %zu runs\nB: %s, %zu runs\n", a->path, a->n, b->path, b->n);
  if (one_point(a) && one_point(b))
    any = print_point(out, a, b, NULL);
  else
    for (size_t i = 0; i < a->n; i++)
      if (i == 0 || strcmp(a->files[i].point, a->files[i - 1].point) != 0)
        any |= print_point(out, a, b, a->files[i].point);
  return any ? 0
             : lls_fail(err, -EINVAL, "--compare: %s and %s have no number in common",
                        a->path, b->path);
}

int lls_compare(const char *paths, FILE *out, struct lls_error *err)
{
  struct side sides[2] = {0};
  size_t n = 0, length;
  int rc = 0;
  for (const char *path; (path = lls_option_next(&paths, &length)) != NULL; n++)
    if (n < 2)
      snprintf(sides[n].path, sizeof sides[n].path, "%.*s", (int)length, path);
  if (n != 2)
    return lls_fail(err, -EINVAL,
                    "--compare: expected two results or folders of them, found %zu", n);
  for (size_t i = 0; rc == 0 && i < 2; i++)
    rc = read_side(&sides[i], err);
  if (rc == 0)
    rc = compare(out, &sides[0], &sides[1], err);
  free_side(&sides[0]);
  free_side(&sides[1]);
  return rc;
}
