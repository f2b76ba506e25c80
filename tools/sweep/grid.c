/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and points; see grid.h. */
#include "tools/sweep/grid.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/workload/lengths.h"

#define POINTS_MAX   100000
#define NAME_SIZE    256
#define COMPARED_MAX 1000 /* values whose names are compared with each other */

/* ---- axes -------------------------------------------------------------------------- */

static int add_value(struct lls_axis *axis, const char *text, size_t length)
{
  char **values = reallocarray(axis->values, axis->n + 1, sizeof *values);
  if (values == NULL)
    return -ENOMEM;
  axis->values = values;
  values[axis->n] = strndup(text, length);
  if (values[axis->n] == NULL)
    return -ENOMEM;
  axis->n++;
  return 0;
}

/* 1: the text was FIRST..LAST[:STEP] and its numbers are values now; 0: it is no range;
 * -ERANGE: it ends before it begins. */
static int add_range(struct lls_axis *axis, const char *text)
{
  char range[128];
  double first, last, step = 1;
  snprintf(range, sizeof range, "%s", text);
  char *colon = strchr(range, ':'), *end = NULL;
  if (colon != NULL) {
    *colon = '\0';
    step = strtod(colon + 1, &end);
    if (end == colon + 1 || *end != '\0')
      return 0;
  }
  int rc = lls_range_parse(range, &first, &last);
  if (rc < 0)
    return rc == -ERANGE ? rc : 0;
  if (!(step > 0) || (last - first) / step > POINTS_MAX)
    return -EINVAL;
  for (int64_t i = 0; first + (double)i * step <= last + step * 1e-9; i++) {
    char number[32];
    int length = snprintf(number, sizeof number, "%.12g", first + (double)i * step);
    rc = add_value(axis, number, (size_t)length);
    if (rc < 0)
      return rc;
  }
  return 1;
}

static int add_values(struct lls_axis *axis, const char *text)
{
  int rc = add_range(axis, text);
  if (rc != 0)
    return rc < 0 ? rc : 0;
  for (;;) {
    size_t length = strcspn(text, ",");
    if (length == 0)
      return -EINVAL;
    rc = add_value(axis, text, length);
    if (rc < 0 || text[length] == '\0')
      return rc;
    text += length + 1;
  }
}

static bool same_name(const char *a, const char *b)
{
  for (; *a != '\0' && *b != '\0'; a++, b++)
    if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
      return false;
  return *a == *b;
}

static int fill_axis(const struct lls_grid *grid, struct lls_axis *axis, char *text)
{
  char *equals = strchr(text, '=');
  if (equals == NULL || equals == text)
    return -EINVAL;
  *equals = '\0';
  for (size_t i = 0; i < grid->n_axes; i++)
    if (same_name(grid->axes[i].name, text))
      return -EEXIST;
  axis->name = strdup(text);
  return axis->name == NULL ? -ENOMEM : add_values(axis, equals + 1);
}

static void free_axis(struct lls_axis *axis)
{
  for (size_t i = 0; i < axis->n; i++)
    free(axis->values[i]);
  free(axis->values);
  free(axis->name);
}

/* Adds the last part of a path only, without characters that a file name can't have. */
static void add_part(FILE *out, const char *name, const char *value, bool first)
{
  const char *slash = strrchr(value, '/');
  fprintf(out, "%s%s=", first ? "" : "_", name);
  for (const char *c = slash != NULL ? slash + 1 : value; *c != '\0'; c++)
    fputc(strchr(" \t\n\\:*?\"'<>|", *c) != NULL ? '-' : *c, out);
}

/* As it stands in the names of files. */
static void written(const struct lls_axis *axis, size_t i, char out[NAME_SIZE])
{
  out[0] = '\0';
  FILE *stream = fmemopen(out, NAME_SIZE, "w");
  if (stream == NULL)
    return;
  add_part(stream, axis->name, axis->values[i], true);
  fclose(stream);
}

/* a/x.ini and b/x.ini are one name; numbers of a range are all different. */
static int check_names(const struct lls_axis *axis, struct lls_error *err)
{
  char one[NAME_SIZE], other[NAME_SIZE];
  for (size_t i = 0; i < axis->n && axis->n <= COMPARED_MAX; i++) {
    written(axis, i, one);
    for (size_t j = 0; j < i; j++) {
      written(axis, j, other);
      if (strcmp(one, other) == 0)
        return lls_fail(err, -EINVAL,
                        "--sweep: %s: '%s' and '%s' would have the same result file, %s: "
                        "give one of them another name",
                        axis->name, axis->values[j], axis->values[i], one);
    }
  }
  return 0;
}

int lls_grid_add(struct lls_grid *grid, const char *text, size_t length,
                 struct lls_error *err)
{
  struct lls_axis axis = {0};
  char *copy = strndup(text, length);
  int rc = copy == NULL                   ? -ENOMEM
           : grid->n_axes == LLS_AXES_MAX ? -E2BIG
                                          : fill_axis(grid, &axis, copy);
  free(copy);
  if (rc == 0 && check_names(&axis, err) < 0) {
    free_axis(&axis);
    return -EINVAL;
  }
  if (rc == 0) {
    grid->axes[grid->n_axes++] = axis;
    if (lls_grid_points(grid) <= POINTS_MAX)
      return 0;
    return lls_fail(err, -E2BIG, "--sweep: more than %d runs", POINTS_MAX);
  }
  free_axis(&axis);
  return lls_fail(
      err, rc,
      "--sweep: expected OPTION=A,B,C or OPTION=FIRST..LAST:STEP, each option "
      "once and at most %d of them; found '%.*s'",
      LLS_AXES_MAX, (int)length, text);
}

int lls_grid_read(struct lls_grid *grid, const char *lines, struct lls_error *err)
{
  size_t length;
  int rc = 0;
  for (const char *line; rc == 0 && (line = lls_option_next(&lines, &length)) != NULL;)
    rc = lls_grid_add(grid, line, length, err);
  return rc;
}

int lls_grid_append(struct lls_grid *grid, const char *name, const char *value,
                    struct lls_error *err)
{
  size_t i = 0;
  while (i < grid->n_axes && !same_name(grid->axes[i].name, name))
    i++;
  if (i == LLS_AXES_MAX)
    return lls_fail(err, -E2BIG, "--sweep: at most %d options", LLS_AXES_MAX - 2);
  if (i == grid->n_axes) {
    grid->axes[i] = (struct lls_axis){.name = strdup(name)};
    grid->n_axes++;
  }
  if (grid->axes[i].name == NULL || add_value(&grid->axes[i], value, strlen(value)) < 0)
    return lls_fail(err, -ENOMEM, "no memory for runs");
  return 0;
}

void lls_grid_free(struct lls_grid *grid)
{
  for (size_t i = 0; i < grid->n_axes; i++)
    free_axis(&grid->axes[i]);
  grid->n_axes = 0;
}

/* ---- points ------------------------------------------------------------------------ */

size_t lls_grid_points(const struct lls_grid *grid)
{
  size_t points = 1;
  if (grid->listed)
    return grid->n_axes > 0 ? grid->axes[0].n : 0;
  for (size_t i = 0; i < grid->n_axes && points <= POINTS_MAX; i++)
    points *= grid->axes[i].n;
  return points;
}

const char *lls_grid_value(const struct lls_grid *grid, size_t point, size_t axis)
{
  for (size_t i = grid->n_axes - 1; i > axis && !grid->listed; i--)
    point /= grid->axes[i].n;
  return grid->axes[axis].values[point % grid->axes[axis].n];
}

int lls_grid_apply(const struct lls_grid *grid, size_t point,
                   const struct lls_runner *runner, struct lls_error *err)
{
  for (size_t i = 0; i < grid->n_axes; i++) {
    int rc = lls_option_set(runner->bound, runner->n, grid->axes[i].name,
                            lls_grid_value(grid, point, i), err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

int lls_grid_check(const struct lls_grid *grid, const struct lls_runner *runner,
                   struct lls_error *err)
{
  int rc = 0;
  for (size_t point = 0; rc == 0 && point < lls_grid_points(grid); point++)
    rc = lls_grid_apply(grid, point, runner, err);
  return rc;
}

int64_t lls_first_seed(const struct lls_runner *runner)
{
  for (size_t i = 0; i < runner->n; i++) {
    const struct lls_param *p =
        lls_param_find(&runner->bound[i].group->table, LLS_SEED_AXIS);
    if (p != NULL)
      return *(const int64_t *)((const char *)runner->bound[i].values + p->offset);
  }
  return 0;
}

void lls_grid_name_but(const struct lls_grid *grid, size_t point, size_t but, char *out,
                       size_t size)
{
  bool first = true;
  out[0] = '\0';
  FILE *stream = fmemopen(out, size, "w");
  if (stream == NULL)
    return;
  for (size_t i = 0; i < grid->n_axes; i++)
    if (i != but) {
      add_part(stream, grid->axes[i].name, lls_grid_value(grid, point, i), first);
      first = false;
    }
  fclose(stream);
}

void lls_grid_name(const struct lls_grid *grid, size_t point, char *out, size_t size)
{
  lls_grid_name_but(grid, point, LLS_AXES_MAX, out, size);
}
