/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of sweeps; see grid.h. */
#include "tools/sweep/grid.h"

#include <errno.h>
#include <string.h>

#define NAME_SIZE 256
/* most values of an axis whose names are checked for duplicates */
#define COMPARED_MAX 1000

/* ---- names ------------------------------------------------------------------------- */

/* Adds NAME=VALUE to a file name: of a path only the last part, without characters that
 * file names cannot have. */
static void add_part(FILE *out, const char *name, const char *value, bool first)
{
  const char *slash = strrchr(value, '/');
  fprintf(out, "%s%s=", first ? "" : "_", name);
  for (const char *c = slash != NULL ? slash + 1 : value; *c != '\0'; c++)
    fputc(strchr(" \t\n\\:*?\"'<>|", *c) != NULL ? '-' : *c, out);
}

/* A value as it is written in file names. */
static void written(const struct lls_axis *axis, size_t i, char out[NAME_SIZE])
{
  out[0] = '\0';
  FILE *stream = fmemopen(out, NAME_SIZE, "w");
  if (stream == NULL)
    return;
  add_part(stream, axis->name, axis->values[i], true);
  fclose(stream);
}

/* Checks that no two values share a name, as a/x.ini and b/x.ini do. Numbers of a range
 * all differ. */
static int check_names(const struct lls_axis *axis, struct lls_error *err)
{
  char one[NAME_SIZE], other[NAME_SIZE];
  for (size_t i = 0; i < axis->n && axis->n <= COMPARED_MAX; i++) {
    written(axis, i, one);
    for (size_t j = 0; j < i; j++) {
      written(axis, j, other);
      if (strcmp(one, other) == 0)
        return lls_fail(err, -EINVAL,
                        "%s: '%s' and '%s' would have the same result file, %s: "
                        "give one of them another name",
                        axis->name, axis->values[j], axis->values[i], one);
    }
  }
  return 0;
}

int lls_sweep_add(struct lls_grid *grid, const char *text, size_t length,
                  struct lls_error *err)
{
  int rc = lls_grid_add(grid, text, length, err);
  if (rc == 0)
    rc = check_names(&grid->axes[grid->n_axes - 1], err);
  return rc < 0 ? lls_fail_at(err, rc, "--sweep") : 0;
}

int lls_grid_read(struct lls_grid *grid, const char *lines, struct lls_error *err)
{
  size_t length;
  int rc = 0;
  for (const char *line; rc == 0 && (line = lls_option_next(&lines, &length)) != NULL;)
    rc = lls_sweep_add(grid, line, length, err);
  return rc;
}

/* ---- points ------------------------------------------------------------------------ */

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
