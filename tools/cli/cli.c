/* SPDX-License-Identifier: Apache-2.0 */
/* Parses command lines by tables of options; see cli.h. */
#include "tools/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/config/help.h"
#include "core/params/nearest.h"

#define NAME_MAX_LEN 128

void lls_options_release(const struct lls_bound_options *bound, size_t n)
{
  for (size_t i = 0; i < n; i++)
    lls_params_release(&bound[i].group->table, bound[i].values);
}

int lls_options_default(const struct lls_bound_options *bound, size_t n,
                        struct lls_error *err)
{
  for (size_t i = 0; i < n; i++) {
    int rc = lls_params_default(&bound[i].group->table, NULL, bound[i].values, err);
    if (rc < 0) {
      lls_options_release(bound, i);
      return rc;
    }
  }
  return 0;
}

/* ---- finding ----------------------------------------------------------------------- */

struct found {
  const struct lls_param *param;
  void *values;
};

/* Makes request-rate and request_rate the same name. */
static void underscore(const char *name, size_t length, char out[NAME_MAX_LEN])
{
  if (length >= NAME_MAX_LEN)
    length = NAME_MAX_LEN - 1;
  for (size_t i = 0; i < length; i++)
    out[i] = name[i] == '-' ? '_' : name[i];
  out[length] = '\0';
}

static void dashes(const char *name, char out[NAME_MAX_LEN])
{
  snprintf(out, NAME_MAX_LEN, "%s", name);
  for (char *c = out; *c != '\0'; c++)
    if (*c == '_')
      *c = '-';
}

static struct found find(const struct lls_bound_options *bound, size_t n,
                         const char *name)
{
  for (size_t i = 0; i < n; i++) {
    const struct lls_param *p = lls_param_find(&bound[i].group->table, name);
    if (p != NULL)
      return (struct found){p, bound[i].values};
  }
  return (struct found){NULL, NULL};
}

static int unknown(const struct lls_bound_options *bound, size_t n, const char *name,
                   struct lls_error *err)
{
  struct lls_nearest nearest = {.word = name};
  char as_written[NAME_MAX_LEN], known[NAME_MAX_LEN];
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < bound[i].group->table.n; j++)
      lls_nearest_offer(&nearest, bound[i].group->table.params[j].name);
  dashes(name, as_written);
  dashes(nearest.best, known);
  if (known[0] == '\0')
    return lls_fail(err, -EINVAL, "unknown option --%s; try --help", as_written);
  return lls_fail(err, -EINVAL, "unknown option --%s; did you mean --%s? try --help",
                  as_written, known);
}

/* ---- binding ----------------------------------------------------------------------- */

static int bind(struct found f, const char *text, struct lls_error *err)
{
  int rc = lls_param_bind(f.param, text, NULL, f.values, err);
  char name[NAME_MAX_LEN];
  if (rc == 0)
    return 0;
  dashes(f.param->name, name);
  return lls_fail_at(err, rc, "--%s", name);
}

/* Appends a line to a LIST option. */
static int append(struct found f, const char *text, struct lls_error *err)
{
  char **member = (char **)((char *)f.values + f.param->offset);
  char *joined = NULL;
  if (*member == NULL || **member == '\0')
    return bind(f, text, err);
  if (asprintf(&joined, "%s\n%s", *member, text) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the command line");
  free(*member);
  *member = joined;
  return 0;
}

static int set(struct found f, const char *text, struct lls_error *err)
{
  return f.param->flags & LLS_OPTION_LIST ? append(f, text, err) : bind(f, text, err);
}

int lls_option_set(const struct lls_bound_options *bound, size_t n, const char *name,
                   const char *text, struct lls_error *err)
{
  char underscored[NAME_MAX_LEN];
  underscore(name, strlen(name), underscored);
  struct found f = find(bound, n, underscored);
  return f.param == NULL ? unknown(bound, n, underscored, err) : bind(f, text, err);
}

/* ---- parsing ----------------------------------------------------------------------- */

struct parsing {
  const struct lls_bound_options *bound;
  size_t n;
  int argc, at; /* at: index of the next argument */
  char *const *argv;
};

static bool is_option(const char *argument)
{
  return argument[0] == '-' && argument[1] == '-';
}

/* Finds --no-flag, unless an option has just this name. */
static struct found find_negated(const struct parsing *p, const char *name)
{
  struct found f = {NULL, NULL};
  if (strncmp(name, "no_", 3) == 0)
    f = find(p->bound, p->n, name + 3);
  return f.param != NULL && f.param->type == LLS_TYPE_BOOL ? f
                                                           : (struct found){NULL, NULL};
}

static int take_list(struct parsing *p, struct found f, struct lls_error *err)
{
  int first = p->at, rc = 0;
  while (rc == 0 && p->at < p->argc && !is_option(p->argv[p->at]))
    rc = append(f, p->argv[p->at++], err);
  return rc == 0 && p->at == first ? -ENODATA : rc;
}

static int take_value(struct parsing *p, struct found f, const char *equals,
                      struct lls_error *err)
{
  int rc;
  char name[NAME_MAX_LEN];
  if (equals != NULL)
    return set(f, equals + 1, err);
  if (f.param->type == LLS_TYPE_BOOL)
    return bind(f, "true", err);
  if (f.param->flags & LLS_OPTION_LIST)
    rc = take_list(p, f, err);
  else
    rc = p->at < p->argc ? bind(f, p->argv[p->at++], err) : -ENODATA;
  if (rc != -ENODATA)
    return rc;
  dashes(f.param->name, name);
  return lls_fail(err, -EINVAL, "--%s: expects a value", name);
}

static int parse_one(struct parsing *p, const char *argument, struct lls_error *err)
{
  char name[NAME_MAX_LEN];
  if (!is_option(argument) || argument[2] == '\0')
    return lls_fail(err, -EINVAL, "'%s': expected an option; try --help", argument);
  const char *equals = strchr(argument, '=');
  size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
  underscore(argument + 2, length - 2, name);
  struct found f = find(p->bound, p->n, name);
  if (f.param != NULL)
    return take_value(p, f, equals, err);
  f = find_negated(p, name);
  return f.param != NULL && equals == NULL ? bind(f, "false", err)
                                           : unknown(p->bound, p->n, name, err);
}

int lls_options_parse(const struct lls_bound_options *bound, size_t n, int argc,
                      char *const *argv, struct lls_error *err)
{
  struct parsing p = {.bound = bound, .n = n, .argc = argc, .at = 1, .argv = argv};
  int rc = 0;
  while (rc == 0 && p.at < argc)
    rc = parse_one(&p, argv[p.at++], err);
  return rc;
}

/* ---- help -------------------------------------------------------------------------- */

/* Returns the placeholder of the value in --help: the N of "--ranks N". */
static const char *stand_in(const struct lls_param *p)
{
  switch (p->type) {
  case LLS_TYPE_BOOL:
    return "";
  case LLS_TYPE_INT:
    return "N";
  case LLS_TYPE_FLOAT:
    return "X";
  case LLS_TYPE_DURATION:
    return "TIME";
  case LLS_TYPE_BYTES:
    return "SIZE";
  case LLS_TYPE_CHOICE:
    return p->choices;
  case LLS_TYPE_PATH:
    return "FILE";
  default:
    return p->flags & LLS_OPTION_FOLDER ? "FOLDER"
           : p->flags & LLS_OPTION_FILE ? "FILE"
           : p->flags & LLS_OPTION_LIST ? "STRING..."
                                        : "STRING";
  }
}

/* Writes " (tokens; from 1 to 4096, or auto; default auto)"; each part may be
 * missing. */
static void add_details(const struct lls_param *p, struct lls_text *out)
{
  char expected[256];
  const char *between = " (", *fallback = p->default_value;
  const char *bounds =
      strstr(lls_param_expected(p, expected, sizeof expected), ", from ");
  if (p->type == LLS_TYPE_BOOL)
    return;
  if (bounds == NULL)
    bounds = strstr(expected, ", at least ");
  if (p->unit != NULL && p->unit[0] != '\0') {
    lls_text_printf(out, "%s%s", between, p->unit);
    between = "; ";
  }
  if (bounds != NULL) {
    lls_text_printf(out, "%s%s", between, bounds + 2);
    between = "; ";
  }
  if (fallback != NULL && fallback[0] != '\0') {
    lls_text_printf(out, "%sdefault %s", between, fallback);
    between = "; ";
  }
  if (strcmp(between, "; ") == 0)
    lls_text_puts(out, ")");
}

static void print_option(const struct lls_param *p, FILE *out)
{
  char name[NAME_MAX_LEN];
  struct lls_text text = {0};
  const char *value = stand_in(p);
  dashes(p->name, name);
  fprintf(out, "  --%s%s%s\n", name, value[0] != '\0' ? " " : "", value);
  lls_text_puts(&text, p->sentence);
  add_details(p, &text);
  lls_print_wrapped(out, "      ", text.failed ? p->sentence : text.data);
  lls_text_free(&text);
}

void lls_options_help(const struct lls_bound_options *bound, size_t n, FILE *out)
{
  for (size_t i = 0; i < n; i++) {
    fprintf(out, "\n%s:\n", bound[i].group->title);
    for (size_t j = 0; j < bound[i].group->table.n; j++)
      print_option(&bound[i].group->table.params[j], out);
  }
}

const char *lls_option_next(const char **at, size_t *length)
{
  const char *line = *at;
  if (line == NULL || *line == '\0')
    return NULL;
  *length = strcspn(line, "\n");
  *at = line + *length + (line[*length] == '\n');
  return line;
}
