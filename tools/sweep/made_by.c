/* SPDX-License-Identifier: Apache-2.0 */
/* The origin of a result; see made_by.h. */
#include "tools/sweep/made_by.h"

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/json_parse.h"
#include "core/base/text.h"
#include "tools/report/report.h"
#include "tools/sweep/results.h"

#define SHOWN_BYTES 65536 /* largest configuration that is kept as text */

/* ---- files ------------------------------------------------------------------------- */

static int read_file(FILE *file, uint64_t *hash, struct lls_text *text)
{
  unsigned char buffer[1 << 16];
  size_t n;
  *hash = UINT64_C(0xcbf29ce484222325);
  while ((n = fread(buffer, 1, sizeof buffer, file)) > 0) {
    for (size_t i = 0; i < n; i++)
      *hash = (*hash ^ buffer[i]) * UINT64_C(0x100000001b3);
    if (text != NULL && text->length + n <= SHOWN_BYTES)
      lls_text_append(text, (const char *)buffer, n);
  }
  return ferror(file) ? -EIO : 0;
}

static bool is_ini(const char *path)
{
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".ini") == 0;
}

json_t *lls_made_by_file(const char *path, struct lls_error *err)
{
  struct lls_text text = {0};
  uint64_t hash = 0;
  char hex[17];
  FILE *file = fopen(path, "re");
  int rc = file == NULL ? -errno : read_file(file, &hash, is_ini(path) ? &text : NULL);
  if (file != NULL)
    fclose(file);
  if (rc < 0) {
    lls_fail(err, rc, "%s: cannot be read: %s", path, strerror(-rc));
    return NULL;
  }
  const char *slash = strrchr(path, '/');
  snprintf(hex, sizeof hex, "%016" PRIx64, hash);
  json_t *out =
      json_pack("{s:s, s:s}", "name", slash != NULL ? slash + 1 : path, "hash", hex);
  if (text.length > 0)
    json_object_set_new(out, "text", json_stringn(text.data, text.length));
  lls_text_free(&text);
  return out;
}

/* ---- options ----------------------------------------------------------------------- */

static json_t *choice(const char *choices, int64_t index)
{
  while (index-- > 0 && strchr(choices, '|') != NULL)
    choices = strchr(choices, '|') + 1;
  return json_stringn(choices, strcspn(choices, "|"));
}

static json_t *value_of(const struct lls_param *p, const void *values)
{
  const void *at = (const char *)values + p->offset;
  switch (p->type) {
  case LLS_TYPE_BOOL:
    return json_boolean(*(const bool *)at);
  case LLS_TYPE_FLOAT:
    return isfinite(*(const double *)at) ? json_real(*(const double *)at) : json_null();
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    return json_string(*(const char *const *)at);
  case LLS_TYPE_CHOICE:
    return choice(p->choices, *(const int64_t *)at);
  default:
    return json_integer(*(const int64_t *)at);
  }
}

static bool is_file(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Adds the files mentioned in a text such as "0.5*file:a.csv:tokens+0.5*fixed:3". */
static int add_mentioned(json_t *files, const char *text, struct lls_error *err)
{
  static const char word[] = "file:";
  for (const char *at = text; (at = strstr(at, word)) != NULL;) {
    char path[4096];
    at += sizeof word - 1;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ":+\n"), at);
    json_t *file = is_file(path) ? lls_made_by_file(path, err) : json_null();
    if (file == NULL)
      return -EIO;
    json_object_set_new(files, path, file);
  }
  return 0;
}

/* Describes a model's folder by its name and the files that tools read. */
static json_t *folder_of(const char *path, struct lls_error *err)
{
  static const char *const read[] = {"config.json", "tokenizer.json"};
  char file[4096 + 32], name[4096];
  int rc = snprintf(name, sizeof name, "%s", path);
  while (rc > 1 && name[rc - 1] == '/')
    name[--rc] = '\0';
  const char *slash = strrchr(name, '/');
  json_t *out = json_pack("{s:s}", "name", slash != NULL ? slash + 1 : name);
  for (size_t i = 0; out != NULL && i < sizeof read / sizeof *read; i++) {
    snprintf(file, sizeof file, "%s/%s", name, read[i]);
    if (!is_file(file))
      continue;
    json_t *one = lls_made_by_file(file, err);
    if (one == NULL || json_object_set_new(out, read[i], one) < 0) {
      json_decref(out);
      return NULL;
    }
  }
  return out;
}

static int add_option(json_t *made_by, const struct lls_param *p, json_t *value,
                      struct lls_error *err)
{
  const char *text = json_string_value(value);
  json_t *options = json_object_get(made_by, "options"), *file = value;
  struct stat st;
  if (text != NULL && p->flags & (LLS_OPTION_FILE | LLS_OPTION_FOLDER) &&
      stat(text, &st) == 0)
    file = S_ISDIR(st.st_mode) ? folder_of(text, err) : lls_made_by_file(text, err);
  if (file != value)
    return file != NULL ? json_object_set_new(options, p->name, file) : -EIO;
  json_object_set(options, p->name, value);
  return text != NULL ? add_mentioned(json_object_get(made_by, "files"), text, err) : 0;
}

/* Adds the options of a group that affect results and differ from their default. */
static int add_group(json_t *made_by, const struct lls_bound_options *bound,
                     struct lls_error *err)
{
  const struct lls_param_table *table = &bound->group->table;
  void *defaults = calloc(1, table->size);
  int rc = defaults != NULL ? lls_params_default(table, NULL, defaults, err)
                            : lls_fail(err, -ENOMEM, "no memory for options");
  if (rc < 0) {
    free(defaults);
    return rc;
  }
  for (size_t i = 0; rc == 0 && i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    json_t *value = value_of(p, bound->values), *usual = value_of(p, defaults);
    if (!(p->flags & LLS_OPTION_APART) && !json_equal(value, usual))
      rc = add_option(made_by, p, value, err);
    json_decref(value);
    json_decref(usual);
  }
  lls_params_release(table, defaults);
  free(defaults);
  return rc;
}

json_t *lls_made_by(const char *tool, const struct lls_bound_options *bound, size_t n,
                    struct lls_error *err)
{
  json_t *program = lls_made_by_file("/proc/self/exe", err);
  if (program == NULL)
    return NULL;
  json_object_set_new(program, "name", json_string(tool));
  json_object_set_new(program, "version", json_string(PACKAGE_VERSION));
  json_t *made_by =
      json_pack("{s:o, s:{}, s:{}}", "program", program, "options", "files");
  int rc = made_by != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for options");
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = add_group(made_by, &bound[i], err);
  if (rc == 0)
    return made_by;
  json_decref(made_by);
  return NULL;
}

/* ---- comparing --------------------------------------------------------------------- */

/* Returns the object as it would be read from a file, where numbers have twelve
 * digits. */
static json_t *as_written(const json_t *object)
{
  char *text = json_dumps(object, LLS_RESULT_FORMAT);
  json_t *read = text != NULL ? lls_json_parse_string(text, 0, NULL) : NULL;
  free(text);
  return read;
}

bool lls_result_made_by(const char *path, const json_t *made_by)
{
  json_t *result = is_file(path) ? lls_result_read(path, NULL) : NULL;
  json_t *then = json_object_get(result, "made_by"), *now = as_written(made_by);
  bool same = then != NULL && now != NULL && json_equal(then, now);
  json_decref(now);
  json_decref(result);
  return same;
}
