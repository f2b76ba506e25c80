/* SPDX-License-Identifier: Apache-2.0 */
/* Converts one value from text to struct member, and words the error that says what was
 * expected. */
#include "core/params/params.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct unit {
  const char *name;
  int64_t scale;
};

/* The first unit is that of a number without one; the others are ordered from small to
 * large for printing. */
static const struct unit duration_units[] = {
    {"", LLS_NS_PER_S},
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", LLS_NS_PER_S},
    {"min", 60 * LLS_NS_PER_S},
    {"h", 3600 * LLS_NS_PER_S},
    {NULL, 0},
};
static const struct unit byte_units[] = {
    {"", 1},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {NULL, 0},
};

static const double unbounded = 9.2e18; /* close to the largest int64_t */

size_t lls_param_member_bytes(uint32_t type)
{
  switch (type) {
  case LLS_TYPE_BOOL:
    return sizeof(bool);
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    return sizeof(const char *);
  case LLS_TYPE_INT:
  case LLS_TYPE_CHOICE:
  case LLS_TYPE_DURATION:
  case LLS_TYPE_BYTES:
    return sizeof(int64_t);
  case LLS_TYPE_FLOAT:
    return sizeof(double);
  default:
    return 0;
  }
}

/* ---- reading ---------------------------------------------------------------------- */

static int read_bool(const char *text, bool *out)
{
  static const char *const words[] = {"false", "true", "off", "on",
                                      "no",    "yes",  "0",   "1"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasecmp(text, words[i]) == 0) {
      *out = i % 2;
      return 0;
    }
  return -EINVAL;
}

static int read_int(const char *text, int64_t *out)
{
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0')
    return -EINVAL;
  *out = value;
  return errno == ERANGE ? -ERANGE : 0;
}

/* Reads a number; refuses inf and nan, which strtod accepts. */
static int read_float(const char *text, double *out)
{
  char *end;
  *out = strtod(text, &end);
  return end == text || *end != '\0' || !isfinite(*out) ? -EINVAL : 0;
}

/* Reads a number and its unit, with or without a space between them. */
static int read_scaled(const char *text, const struct unit *units, int64_t *out)
{
  char *end;
  long double number = strtold(text, &end);
  if (end == text || !isfinite(number))
    return -EINVAL;
  while (*end == ' ')
    end++;
  for (const struct unit *u = units; u->name != NULL; u++) {
    if (strcmp(end, u->name) != 0)
      continue;
    number *= u->scale;
    if (fabsl(number) >= (long double)unbounded)
      return -ERANGE;
    *out = llroundl(number);
    return 0;
  }
  return -EINVAL;
}

static int64_t size_of(const struct unit *units, const char *name)
{
  const struct unit *u = units;
  while (u->name != NULL && strcmp(u->name, name) != 0)
    u++;
  return u->scale;
}

int64_t lls_param_unit(const char *name, uint32_t *type)
{
  if (name[0] == '\0')
    return 0;
  int64_t size = size_of(duration_units, name);
  *type = size != 0 ? LLS_TYPE_DURATION : LLS_TYPE_BYTES;
  return size != 0 ? size : size_of(byte_units, name);
}

static int read_choice(const char *text, const char *choices, int64_t *out)
{
  size_t length = strlen(text);
  for (int64_t index = 0;; index++) {
    size_t n = strcspn(choices, "|");
    if (n == length && strncmp(choices, text, n) == 0) {
      *out = index;
      return 0;
    }
    if (choices[n] == '\0')
      return -EINVAL;
    choices += n + 1;
  }
}

static int read_integer(const struct lls_param *p, const char *text, int64_t *out)
{
  if (p->type == LLS_TYPE_DURATION)
    return read_scaled(text, duration_units, out);
  if (p->type == LLS_TYPE_BYTES)
    return read_scaled(text, byte_units, out);
  if (p->type == LLS_TYPE_CHOICE)
    return read_choice(text, p->choices, out);
  return read_int(text, out);
}

static int check_bounds(const struct lls_param *p, double value)
{
  if (p->min == 0 && p->max == 0)
    return 0;
  return value < p->min || value > p->max ? -ERANGE : 0;
}

static int not_expected(const struct lls_param *p, int code, const char *text,
                        struct lls_error *err)
{
  char expected[256];
  return lls_fail(err, code, "expected %s; found '%s'",
                  lls_param_expected(p, expected, sizeof expected), text);
}

char *lls_path_join(const char *folder, const char *path)
{
  if (folder == NULL || path[0] == '/' || path[0] == '\0')
    return strdup(path);
  while (strncmp(path, "./", 2) == 0)
    path += 2;
  char *joined = NULL;
  return asprintf(&joined, "%s/%s", folder, path) < 0 ? NULL : joined;
}

/* True if the path is a pipe, which must not be opened: that may wait forever for its
 * other end. */
static bool is_pipe(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int bind_text(const struct lls_param *p, const char *text, const char *folder,
                     void *member, struct lls_error *err)
{
  char *copy = p->type == LLS_TYPE_PATH ? lls_path_join(folder, text) : strdup(text);
  if (copy == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a text of %zu bytes", strlen(text));
  if (p->type == LLS_TYPE_PATH && is_pipe(copy)) {
    int rc = lls_fail(err, -EINVAL, "%s: a pipe; expected a file or a folder", copy);
    free(copy);
    return rc;
  }
  char **owned = member;
  free(*owned);
  *owned = copy;
  return 0;
}

static int bind_float(const struct lls_param *p, const char *text, double *member)
{
  double value;
  if ((p->flags & LLS_PARAM_AUTO) && strcmp(text, "auto") == 0) {
    *member = NAN;
    return 0;
  }
  int rc = read_float(text, &value);
  if (rc == 0)
    rc = check_bounds(p, value);
  if (rc == 0)
    *member = value;
  return rc;
}

static int bind_integer(const struct lls_param *p, const char *text, int64_t *member)
{
  int64_t value;
  if ((p->flags & LLS_PARAM_AUTO) && strcmp(text, "auto") == 0) {
    *member = LLS_NEVER;
    return 0;
  }
  int rc = read_integer(p, text, &value);
  if (rc == 0)
    rc = check_bounds(p, (double)value);
  if (rc == 0)
    *member = value;
  return rc;
}

int lls_param_bind(const struct lls_param *p, const char *text, const char *folder,
                   void *values, struct lls_error *err)
{
  void *member = (char *)values + p->offset;
  int rc;
  if (p->type == LLS_TYPE_STRING || p->type == LLS_TYPE_PATH)
    return bind_text(p, text, folder, member, err);
  if (p->type == LLS_TYPE_BOOL)
    rc = read_bool(text, member);
  else if (p->type == LLS_TYPE_FLOAT)
    rc = bind_float(p, text, member);
  else
    rc = bind_integer(p, text, member);
  return rc < 0 ? not_expected(p, rc, text, err) : 0;
}

/* ---- saying what is expected ------------------------------------------------------- */

/* Prints a value in the largest unit that leaves a whole number. */
static void format_scaled(int64_t value, const struct unit *units, char *buffer,
                          size_t size)
{
  const struct unit *best = &units[0];
  for (const struct unit *u = units + 1; u->name != NULL; u++)
    if (value != 0 && value % u->scale == 0)
      best = u;
  snprintf(buffer, size, "%" PRId64 "%s", value / best->scale, best->name);
}

static void format_bound(const struct lls_param *p, double bound, char *buffer,
                         size_t size)
{
  int64_t whole = (int64_t)fmax(-unbounded, fmin(bound, unbounded));
  if (p->type == LLS_TYPE_DURATION)
    format_scaled(whole, duration_units, buffer, size);
  else if (p->type == LLS_TYPE_BYTES)
    format_scaled(whole, byte_units, buffer, size);
  else
    snprintf(buffer, size, "%.15g", bound);
}

static const char *type_phrase(uint32_t type)
{
  switch (type) {
  case LLS_TYPE_BOOL:
    return "true or false";
  case LLS_TYPE_INT:
    return "a whole number";
  case LLS_TYPE_FLOAT:
    return "a number";
  case LLS_TYPE_PATH:
    return "a path";
  case LLS_TYPE_CHOICE:
    return "one of ";
  case LLS_TYPE_DURATION:
    return "a duration like 10ms, 1.5s or 2min";
  case LLS_TYPE_BYTES:
    return "bytes like 1000, 512MiB or 2GiB";
  default:
    return "a text";
  }
}

static void add_choices(FILE *out, const char *choices)
{
  for (; *choices != '\0'; choices++)
    if (*choices == '|')
      fputs(", ", out);
    else
      fputc(*choices, out);
}

static void add_bounds(FILE *out, const struct lls_param *p)
{
  char least[32], most[32];
  if (p->min == 0 && p->max == 0)
    return;
  format_bound(p, p->min, least, sizeof least);
  if (p->max >= unbounded) {
    fprintf(out, ", at least %s", least);
    return;
  }
  format_bound(p, p->max, most, sizeof most);
  fprintf(out, ", from %s to %s", least, most);
}

const char *lls_param_expected(const struct lls_param *p, char *buffer, size_t size)
{
  buffer[0] = '\0';
  FILE *out = fmemopen(buffer, size, "w");
  if (out == NULL)
    return buffer;
  fputs(type_phrase(p->type), out);
  if (p->type == LLS_TYPE_CHOICE)
    add_choices(out, p->choices);
  else if (p->unit[0] != '\0')
    fprintf(out, " of %s", p->unit);
  add_bounds(out, p);
  if (p->flags & LLS_PARAM_AUTO)
    fputs(", or auto", out);
  fclose(out);
  return buffer;
}
