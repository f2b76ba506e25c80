/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and points; see grid.h. */
#include "core/config/grid.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/params/params.h"

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

/* A number and the letters after it. */
struct quantity {
  double number;
  char unit[8];
};

/* Reads a quantity. Returns the text after it, or NULL if there is none at `text`. */
static const char *read_quantity(const char *text, struct quantity *out)
{
  char *end;
  out->number = strtod(text, &end);
  if (end > text && end[-1] == '.') /* "512." of "512..1024" is a number, too */
    end--;
  size_t letters = strspn(end, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  if (end == text || !isfinite(out->number) || letters >= sizeof out->unit)
    return NULL;
  memcpy(out->unit, end, letters);
  out->unit[letters] = '\0';
  return end + letters;
}

/* Converts the quantity to another unit; one without a unit is taken to have that unit.
 * Returns -EINVAL if a unit is unknown, or if one is of time and the other of memory. */
static int convert(struct quantity *q, const char *unit)
{
  uint32_t from_type, to_type;
  if (q->unit[0] == '\0' || strcmp(q->unit, unit) == 0)
    return 0;
  int64_t from = lls_param_unit(q->unit, &from_type), to = lls_param_unit(unit, &to_type);
  if (from == 0 || to == 0 || from_type != to_type)
    return -EINVAL;
  q->number *= (double)from / (double)to;
  return 0;
}

/* Reads FIRST..LAST[:STEP] in LAST's unit, or in FIRST's if LAST has none. Returns
 * false if the text is no range. */
static bool read_range(const char *text, struct quantity *first, struct quantity *last,
                       struct quantity *step)
{
  *step = (struct quantity){.number = 1};
  text = read_quantity(text, first);
  if (text == NULL || strncmp(text, "..", 2) != 0)
    return false;
  text = read_quantity(text + 2, last);
  if (text != NULL && *text == ':')
    text = read_quantity(text + 1, step);
  if (text == NULL || *text != '\0')
    return false;
  if (last->unit[0] == '\0')
    memcpy(last->unit, first->unit, sizeof last->unit);
  return convert(first, last->unit) == 0 && convert(step, last->unit) == 0;
}

/* Adds the values of FIRST..LAST[:STEP]. Returns 1; 0 if the text is no range; -ERANGE
 * if it ends before it begins. */
static int add_range(struct lls_axis *axis, const char *text)
{
  struct quantity first, last, step;
  if (!read_range(text, &first, &last, &step))
    return isdigit((unsigned char)text[0]) && strstr(text, "..") != NULL ? -EINVAL : 0;
  if (first.number > last.number)
    return -ERANGE;
  double steps = (last.number - first.number) / step.number +
                 1e-9; /* rounding: 0.3 counts as three steps of 0.1 */
  if (!(step.number > 0) || !isfinite(steps) || steps > POINTS_MAX)
    return -EINVAL;
  for (int64_t i = 0; (double)i <= steps; i++) {
    char value[48];
    int length = snprintf(value, sizeof value, "%.12g%s",
                          first.number + (double)i * step.number, last.unit);
    int rc = add_value(axis, value, (size_t)length);
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
