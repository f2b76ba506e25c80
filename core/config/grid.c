/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and points; see grid.h. */
#include "core/config/grid.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MAX 100000

/* ---- ranges ------------------------------------------------------------------------ */

int lls_range_parse(const char *text, double *low, double *high)
{
  char *end;
  *low = strtod(text, &end);
  if (end > text && end[-1] == '.') /* "512." of "512..1024" is a number, too */
    end--;
  if (end == text || strncmp(end, "..", 2) != 0)
    return -EINVAL;
  text = end + 2;
  *high = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(*low) || !isfinite(*high))
    return -EINVAL;
  return *low > *high ? -ERANGE : 0;
}

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
  double steps = (last - first) / step + 1e-9; /* 0.3 is three steps of 0.1, too */
  if (!(step > 0) || !isfinite(step) || steps > POINTS_MAX)
    return -EINVAL;
  for (int64_t i = 0; (double)i <= steps; i++) {
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

int lls_grid_add(struct lls_grid *grid, const char *text, size_t length,
                 struct lls_error *err)
{
  struct lls_axis axis = {0};
  char *copy = strndup(text, length);
  int rc = copy == NULL                   ? -ENOMEM
           : grid->n_axes == LLS_AXES_MAX ? -E2BIG
                                          : fill_axis(grid, &axis, copy);
  free(copy);
  if (rc < 0) {
    free_axis(&axis);
    return lls_fail(err, rc,
                    "expected NAME=A,B,C or NAME=FIRST..LAST:STEP, each name once and at "
                    "most %d of them; found '%.*s'",
                    LLS_AXES_MAX, (int)length, text);
  }
  grid->axes[grid->n_axes++] = axis;
  return lls_grid_points(grid) <= POINTS_MAX
             ? 0
             : lls_fail(err, -E2BIG, "more than %d points", POINTS_MAX);
}

int lls_grid_append(struct lls_grid *grid, const char *name, const char *value,
                    struct lls_error *err)
{
  size_t i = 0;
  while (i < grid->n_axes && !same_name(grid->axes[i].name, name))
    i++;
  if (i == LLS_AXES_MAX)
    return lls_fail(err, -E2BIG, "at most %d axes", LLS_AXES_MAX);
  if (i == grid->n_axes) {
    grid->axes[i] = (struct lls_axis){.name = strdup(name)};
    grid->n_axes++;
  }
  if (grid->axes[i].name == NULL || add_value(&grid->axes[i], value, strlen(value)) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the points");
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
