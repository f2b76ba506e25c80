/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sets of finished runs side by side. A side is a result file or a folder of them;
 * files whose names differ only in the seed are repeats of one point, and points of the
 * same name are compared. A side wins a line only where both have three runs or more and
 * their 95 % intervals do not overlap.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/sweep/results.h"
#include "tools/sweep/sweep.h"

#define RUNS_MAX  10000
#define LEAST     3 /* runs a side; fewer say nothing about their spread */
#define NAME_SIZE 256

struct file {
  char point[NAME_SIZE]; /* its name without folder, ending and seed */
  json_t *result;
};

struct side {
  char path[4096];
  struct file *files; /* (n), by name */
  size_t n;
};

/* ---- reading ----------------------------------------------------------------------- */

/* "request-rate=2_seed=1.json" is of the point "request-rate=2". */
static void name_point(const char *file, char out[NAME_SIZE])
{
  size_t length = strlen(file), used = 0;
  if (length > 5 && strcmp(file + length - 5, ".json") == 0)
    length -= 5;
  for (const char *at = file, *end = file + length; at < end;) {
    size_t part = (size_t)(end - at);
    const char *next = memchr(at, '_', part);
    part = next != NULL ? (size_t)(next - at) : part;
    if (strncmp(at, "seed=", 5) != 0 && used + part + 2 < NAME_SIZE)
      used += (size_t)snprintf(out + used, NAME_SIZE - used, "%s%.*s",
                               used > 0 ? "_" : "", (int)part, at);
    at += part + 1;
  }
  out[used] = '\0';
}

static int add_file(struct side *side, const char *path, const char *point,
                    struct lls_error *err)
{
  struct file *files = reallocarray(side->files, side->n + 1, sizeof *files);
  if (files == NULL)
    return lls_fail(err, -ENOMEM, "no memory for results");
  side->files = files;
  files[side->n] = (struct file){.result = lls_result_read(path, err)};
  if (files[side->n].result == NULL)
    return -EINVAL;
  snprintf(files[side->n].point, NAME_SIZE, "%s", point);
  side->n++;
  return 0;
}

static int is_result(const struct dirent *entry)
{
  size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static int read_folder(struct side *side, struct lls_error *err)
{
  struct dirent **entries;
  int n = scandir(side->path, &entries, is_result, alphasort), rc = 0;
  if (n < 0)
    return lls_fail(err, -EINVAL, "%s: cannot be read: %s", side->path, strerror(errno));
  for (int i = 0; i < n; i++) {
    char path[8192], point[NAME_SIZE];
    snprintf(path, sizeof path, "%.4095s/%.255s", side->path, entries[i]->d_name);
    name_point(entries[i]->d_name, point);
    if (rc == 0 && side->n < RUNS_MAX)
      rc = add_file(side, path, point, err);
    free(entries[i]);
  }
  free(entries);
  if (rc == 0 && side->n == 0)
    return lls_fail(err, -EINVAL, "%s: has no results (*.json)", side->path);
  return rc;
}

static int read_side(struct side *side, struct lls_error *err)
{
  struct stat st;
  if (stat(side->path, &st) == 0 && S_ISDIR(st.st_mode))
    return read_folder(side, err);
  return add_file(side, side->path, "", err);
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

/* The runs of a point that have the number; their interval in *out. */
static size_t measure(const struct side *side, const char *point,
                      const struct lls_result_column *column, struct lls_interval *out)
{
  double *values = calloc(side->n, sizeof *values);
  size_t n = 0;
  for (size_t i = 0; values != NULL && i < side->n; i++) {
    double value = column->scale * lls_result_number(side->files[i].result, column->path);
    if ((point == NULL || strcmp(side->files[i].point, point) == 0) && !isnan(value))
      values[n++] = value;
  }
  *out = lls_bootstrap(values, n);
  free(values);
  return n;
}

static const char *verdict(const struct lls_result_column *column,
                           const struct lls_interval *a, const struct lls_interval *b,
                           size_t fewest)
{
  if (fewest < LEAST)
    return "too few runs";
  if (a->low <= b->high && b->low <= a->high)
    return "no winner";
  return (a->mean > b->mean) == column->more_is_better ? "A is better" : "B is better";
}

static void print_side(FILE *out, const struct lls_interval *x, size_t n)
{
  if (n > 1)
    fprintf(out, " %10.5g [%.5g, %.5g]", x->mean, x->low, x->high);
  else
    fprintf(out, " %10.5g", x->mean);
}

/* point NULL: all that a side has. False if a side has nothing of it. */
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
    fprintf(out, "  %+.1f %%  %s\n", 100 * (y.mean / x.mean - 1),
            verdict(c, &x, &y, n < m ? n : m));
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
