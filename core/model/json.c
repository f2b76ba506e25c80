/* SPDX-License-Identifier: Apache-2.0 */
/* Typed look-ups over jansson; see json.h. */
#include "core/model/json.h"

#include "core/base/file.h"
#include "core/base/json_parse.h"
#include "core/model/gguf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Converts the metadata of a GGUF file to one of these files of a folder. */
static int read_gguf(const char *path, const char *name, struct lls_json *out,
                     struct lls_error *err)
{
  snprintf(out->file, sizeof out->file, "%s", path);
  if (strcmp(name, "1_Pooling/config.json") == 0)
    return lls_gguf_pooling(path, &out->root, err);
  if (strcmp(name, "generation_config.json") == 0)
    return lls_gguf_sampling(path, &out->root, err);
  if (strcmp(name, "config.json") != 0)
    return lls_fail(err, -ENOENT, "%s: has no %s", path, name);
  return lls_gguf_config(path, &out->root, err);
}

int lls_json_read(const char *folder, const char *name, struct lls_json *out,
                  struct lls_error *err)
{
  out->names = NULL;
  int length = snprintf(out->file, sizeof out->file, "%s/%s", folder, name);
  if (length < 0 || (size_t)length >= sizeof out->file)
    return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", folder);
  if (lls_is_gguf(folder))
    return read_gguf(folder, name, out, err);
  FILE *file;
  int rc = lls_file_open(out->file, 0, &file, err);
  if (rc < 0)
    return rc;
  json_error_t at;
  out->root = lls_json_parse_stream(file, JSON_REJECT_DUPLICATES, &at);
  fclose(file);
  if (out->root == NULL)
    return lls_fail(err, -EINVAL, "%s:%d: not valid JSON: %s", out->file, at.line,
                    at.text);
  if (json_is_object(out->root))
    return 0;
  lls_json_close(out);
  return lls_fail(err, -EINVAL, "%s: should hold one JSON object", out->file);
}

void lls_json_close(struct lls_json *json)
{
  json_decref(json->root);
  json_decref(json->names);
  json->root = json->names = NULL;
}

int lls_json_watch(struct lls_json *json, struct lls_error *err)
{
  json->names = json_object();
  return json->names != NULL ? 0 : lls_fail(err, -ENOMEM, "out of memory");
}

bool lls_json_was_read(const struct lls_json *json, const char *key)
{
  return json_object_get(json->names, key) != NULL;
}

struct lls_json lls_json_inside(const struct lls_json *file, json_t *object)
{
  struct lls_json inner = *file;
  inner.root = object;
  inner.names = NULL;
  return inner;
}

json_t *lls_json_get(const struct lls_json *json, const char *key)
{
  json_t *value = json_object_get(json->root, key);
  if (json->names != NULL)
    json_object_set_new(json->names, key, json_true());
  return json_is_null(value) ? NULL : value;
}

int lls_json_size(const struct lls_json *json, const char *key, uint32_t *out,
                  struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  if (value == NULL)
    return lls_fail(err, -EINVAL, "%s: \"%s\" is missing", json->file, key);
  json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < 1 || number > INT32_MAX)
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be a whole number of 1 or more",
                    json->file, key);
  *out = (uint32_t)number;
  return 0;
}

int lls_json_size_or(const struct lls_json *json, const char *key, uint32_t fallback,
                     uint32_t *out, struct lls_error *err)
{
  *out = fallback;
  return lls_json_get(json, key) == NULL ? 0 : lls_json_size(json, key, out, err);
}

int lls_json_real_or(const struct lls_json *json, const char *key, double fallback,
                     double *out, struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  *out = value == NULL ? fallback : json_number_value(value);
  if (value != NULL && !json_is_number(value))
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be a number", json->file, key);
  return 0;
}

int lls_json_bool_or(const struct lls_json *json, const char *key, bool fallback,
                     bool *out, struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  *out = value == NULL ? fallback : json_is_true(value);
  if (value != NULL && !json_is_boolean(value))
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be true or false", json->file, key);
  return 0;
}

int lls_json_string_or(const struct lls_json *json, const char *key, const char *fallback,
                       const char **out, struct lls_error *err)
{
  const json_t *value = lls_json_get(json, key);
  *out = value == NULL ? fallback : json_string_value(value);
  if (*out == NULL && value != NULL)
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be a string", json->file, key);
  return 0;
}
