/* SPDX-License-Identifier: Apache-2.0 */
/* See candidates.h. */
#include "core/config/candidates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/config/changes.h"
#include "core/config/grid.h"
#include "core/plugin/loader.h"

#define BETWEEN   ", \t\n"
#define PARTS     4
#define MOST_TEXT 512

/* ---- the policies: SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]] ------------------------ */

static const uint32_t kinds[PARTS] = {LLS_KIND_SCHEDULER, LLS_KIND_CACHE,
                                      LLS_KIND_PREDICTOR, LLS_KIND_DRAFTER};

static int wrong(const char *text, const char *what, struct lls_error *err)
{
  return lls_fail(err, -EINVAL,
                  "'%s': %s; expected SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]]"
                  "[:PARAMETER=VALUES]...",
                  text, what);
}

/* Cuts at each '+'. Returns the number of parts. */
static size_t cut(char *policies, char *parts[PARTS])
{
  size_t n = 0;
  for (char *at = policies; at != NULL && n <= PARTS; n++) {
    if (n < PARTS)
      parts[n] = at;
    at = strchr(at, '+');
    if (at != NULL)
      *at++ = '\0';
  }
  return n;
}

/* Refuses policies and parameters that a request may not set. Only a plugin knows which
 * of its parameters are paths, and it is not opened here, so no value may have a '/'. */
static int check_request(char *const parts[PARTS], size_t n, const char *parameters,
                         struct lls_error *err)
{
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = lls_changes_check_policy(kinds[i], parts[i], err);
  if (rc == 0 && parameters != NULL && strchr(parameters, '/') != NULL)
    rc = lls_fail(err, -EACCES, "'%.80s': a request may set no path", parameters);
  return rc;
}

/* ---- the grid: PARAMETER=VALUES with a colon before each -------------------------- */

/* Returns the end of a parameter: the next colon with another PARAMETER= after it. A
 * colon within VALUES precedes a step. */
static char *next_parameter(char *text)
{
  for (char *colon = strchr(text, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
    size_t to_colon = strcspn(colon + 1, ":"), to_equals = strcspn(colon + 1, "=");
    if (to_equals < to_colon)
      return colon;
  }
  return NULL;
}

static int read_grid(char *parameters, struct lls_grid *grid, struct lls_error *err)
{
  int rc = 0;
  for (char *at = parameters, *end; rc == 0 && at != NULL; at = end) {
    end = next_parameter(at);
    if (end != NULL)
      *end++ = '\0';
    rc = lls_grid_add(grid, at, strlen(at), err);
  }
  return rc;
}

/* ---- points ----------------------------------------------------------------------- */

static int add(struct lls_candidates *all, struct lls_text *name,
               struct lls_text *settings)
{
  struct lls_candidate *items =
      all->n < LLS_CANDIDATES_MAX
          ? reallocarray(all->items, all->n + 1, sizeof *all->items)
          : NULL;
  if (items == NULL || name->failed || settings->failed)
    return -ENOMEM;
  all->items = items;
  items[all->n++] = (struct lls_candidate){name->data, settings->data};
  *name = *settings = (struct lls_text){0};
  return 0;
}

static int add_point(struct lls_candidates *all, char *const parts[PARTS], size_t n_parts,
                     const struct lls_grid *grid, size_t point)
{
  struct lls_text name = {0}, settings = {0};
  for (size_t i = 0; i < n_parts; i++) {
    lls_text_printf(&name, "%s%s", i > 0 ? "+" : "", parts[i]);
    lls_text_printf(&settings, "plugins.%s=%s\n", lls_plugin_kind_name(kinds[i]),
                    parts[i]);
  }
  for (size_t i = 0; i < grid->n_axes; i++) {
    const char *value = lls_grid_value(grid, point, i);
    lls_text_printf(&name, " %s=%s", grid->axes[i].name, value);
    lls_text_printf(&settings, "scheduler.%s.%s=%s\n", parts[0], grid->axes[i].name,
                    value);
  }
  int rc = add(all, &name, &settings);
  lls_text_free(&name);
  lls_text_free(&settings);
  return rc;
}

static int read_one(char *text, bool by_request, struct lls_candidates *all,
                    struct lls_error *err)
{
  char whole[MOST_TEXT], *parts[PARTS], *parameters = strchr(text, ':');
  struct lls_grid grid = {0};
  snprintf(whole, sizeof whole, "%s", text);
  if (parameters != NULL)
    *parameters++ = '\0';
  size_t n = cut(text, parts);
  if (n > PARTS)
    return wrong(whole, "more than four parts", err);
  for (size_t i = 0; i < n; i++)
    if (parts[i][0] == '\0')
      return wrong(whole, "a part is empty", err);
  int rc = by_request ? check_request(parts, n, parameters, err) : 0;
  if (rc == 0 && parameters != NULL)
    rc = read_grid(parameters, &grid, err);
  size_t points = rc == 0 ? lls_grid_points(&grid) : 0;
  if (all->n + points > LLS_CANDIDATES_MAX)
    rc = lls_fail(err, -E2BIG, "more than %d candidates; a larger step?",
                  LLS_CANDIDATES_MAX);
  for (size_t i = 0; rc == 0 && i < points; i++) {
    rc = add_point(all, parts, n, &grid, i);
    if (rc < 0)
      lls_fail(err, rc, "no memory for the candidates");
  }
  lls_grid_free(&grid);
  return rc < 0 && err->text[0] == '\0' ? wrong(whole, "no such grid", err) : rc;
}

int lls_candidates_read(const char *texts, bool by_request, struct lls_candidates *out,
                        struct lls_error *err)
{
  int rc = 0;
  *out = (struct lls_candidates){0};
  for (const char *at = texts + strspn(texts, BETWEEN); rc == 0 && *at != '\0';) {
    char text[MOST_TEXT];
    size_t length = strcspn(at, BETWEEN);
    if (length >= sizeof text)
      rc = lls_fail(err, -EINVAL, "'%.40s...' is too long", at);
    snprintf(text, sizeof text, "%.*s", (int)length, at);
    if (rc == 0)
      rc = read_one(text, by_request, out, err);
    at += length;
    at += strspn(at, BETWEEN);
  }
  if (rc < 0)
    lls_candidates_free(out);
  return rc;
}

void lls_candidates_free(struct lls_candidates *all)
{
  for (size_t i = 0; i < all->n; i++) {
    free(all->items[i].name);
    free(all->items[i].settings);
  }
  free(all->items);
  *all = (struct lls_candidates){0};
}
