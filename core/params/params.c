/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of parameters and the structs bound to them; param_value.c converts single
 * values. */
#include "core/params/params.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lls_param *lls_param_find(const struct lls_param_table *table,
                                       const char *name)
{
  for (size_t i = 0; i < table->n; i++)
    if (strcmp(table->params[i].name, name) == 0)
      return &table->params[i];
  return NULL;
}

void lls_params_release(const struct lls_param_table *table, void *values)
{
  for (size_t i = 0; i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    if (p->type != LLS_TYPE_STRING && p->type != LLS_TYPE_PATH)
      continue;
    char **text = (char **)((char *)values + p->offset);
    free(*text);
    *text = NULL;
  }
}

int lls_params_default(const struct lls_param_table *table, const char *folder,
                       void *values, struct lls_error *err)
{
  memset(values, 0, table->size);
  for (size_t i = 0; i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    if (p->flags & LLS_PARAM_REQUIRED)
      continue;
    int rc = lls_param_bind(p, p->default_value, folder, values, err);
    if (rc < 0) {
      lls_params_release(table, values);
      return lls_fail_at(err, rc, "default of '%s'", p->name);
    }
  }
  return 0;
}

/* ---- is a table sound? ----------------------------------------------------------- */

static bool good_name(const char *name)
{
  if (name == NULL || !islower((unsigned char)*name))
    return false;
  for (const char *c = name; *c != '\0'; c++)
    if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_')
      return false;
  return true;
}

static int check_member(const struct lls_param_table *table, const struct lls_param *p,
                        struct lls_error *err)
{
  size_t bytes = lls_param_member_bytes(p->type);
  if (bytes == 0)
    return lls_fail(err, -EINVAL, "type: expected %d to %d, found %u", LLS_TYPE_BOOL,
                    LLS_TYPE_BYTES, p->type);
  if (p->offset > table->size || bytes > table->size - p->offset)
    return lls_fail(err, -EINVAL,
                    "offset: expected at most %zu for a member of %zu bytes, found %zu",
                    table->size < bytes ? 0 : table->size - bytes, bytes, p->offset);
  if (p->offset % bytes != 0) /* true of every member type's alignment */
    return lls_fail(err, -EINVAL, "offset: expected a multiple of %zu, found %zu", bytes,
                    p->offset);
  return 0;
}

static int check_description(const struct lls_param *p, struct lls_error *err)
{
  if (p->sentence == NULL || p->sentence[0] == '\0')
    return lls_fail(err, -EINVAL, "sentence: expected what it does, found nothing");
  if (p->unit == NULL)
    return lls_fail(err, -EINVAL, "unit: expected a text, found NULL");
  bool choice = p->type == LLS_TYPE_CHOICE;
  if (choice != (p->choices != NULL && p->choices[0] != '\0'))
    return lls_fail(err, -EINVAL, "choices: expected %s, found %s",
                    choice ? "\"a|b|c\"" : "NULL, since it is no CHOICE",
                    choice ? "nothing" : p->choices);
  if (!isfinite(p->min) || !isfinite(p->max) || p->min > p->max)
    return lls_fail(err, -EINVAL, "bounds: expected min <= max, found %g and %g", p->min,
                    p->max);
  bool textual =
      p->type == LLS_TYPE_BOOL || p->type == LLS_TYPE_STRING || p->type == LLS_TYPE_PATH;
  if (textual && (p->flags & LLS_PARAM_AUTO))
    return lls_fail(err, -EINVAL, "flags: AUTO is for numbers and choices only");
  if ((p->flags & LLS_PARAM_REQUIRED) && (p->flags & LLS_PARAM_EXPERIMENTAL))
    return lls_fail(
        err, -EINVAL,
        "flags: expected REQUIRED or EXPERIMENTAL, found both: what must be set "
        "can't be hidden");
  if (p->default_value == NULL && !(p->flags & LLS_PARAM_REQUIRED))
    return lls_fail(err, -EINVAL,
                    "default_value: expected a text, or the flag REQUIRED; found NULL");
  return 0;
}

/* Checks that two parameters have different names and that their members do not
 * overlap. */
static int check_apart(const struct lls_param *a, const struct lls_param *b,
                       struct lls_error *err)
{
  if (strcmp(a->name, b->name) == 0)
    return lls_fail(err, -EINVAL, "two parameters are called '%s'", a->name);
  if (a->offset < b->offset + lls_param_member_bytes(b->type) &&
      b->offset < a->offset + lls_param_member_bytes(a->type))
    return lls_fail(err, -EINVAL, "parameters '%s' and '%s' overlap at offset %zu",
                    b->name, a->name, a->offset);
  return 0;
}

static int check_param(const struct lls_param_table *table, size_t index,
                       struct lls_error *err)
{
  const struct lls_param *p = &table->params[index];
  if (!good_name(p->name))
    return lls_fail(err, -EINVAL,
                    "parameter %zu: name: expected [a-z][a-z0-9_]*, found %s", index,
                    p->name == NULL ? "NULL" : p->name);
  int rc = check_member(table, p, err);
  if (rc == 0)
    rc = check_description(p, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "parameter '%s'", p->name);
  for (size_t i = 0; i < index && rc == 0; i++)
    rc = check_apart(p, &table->params[i], err);
  return rc;
}

int lls_param_table_check(const struct lls_param_table *table, struct lls_error *err)
{
  if (table->n > 0 && table->params == NULL)
    return lls_fail(err, -EINVAL, "params: expected %zu parameters, found NULL",
                    table->n);
  for (size_t i = 0; i < table->n; i++) {
    int rc = check_param(table, i, err);
    if (rc < 0)
      return rc;
  }
  void *values = calloc(1, table->size + 1); /* + 1: a plugin may have no parameters */
  if (values == NULL)
    return lls_fail(err, -ENOMEM, "params_size: no memory for %zu bytes", table->size);
  int rc = lls_params_default(table, NULL, values, err);
  if (rc == 0)
    lls_params_release(table, values);
  free(values);
  return rc;
}
