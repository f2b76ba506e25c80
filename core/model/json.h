/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed look-ups in a JSON object from a file, such as config.json. The error for a
 * value of the wrong type or out of range names the file and the key.
 */
#ifndef LLS_MODEL_JSON_H
#define LLS_MODEL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_json {
  char file[512]; /* the file's name in messages */
  json_t *root;   /* an object */
  json_t *names;  /* names looked up after lls_json_watch; else NULL */
};

/* Reads an object. Returns 0, -ENOENT if the file does not exist, or another negative
 * errno. Close it with lls_json_close. */
int lls_json_read(const char *folder, const char *name, struct lls_json *out,
                  struct lls_error *err);
void lls_json_close(struct lls_json *);

/* Records the names that are looked up from now on in this object, not in nested ones.
 * Returns 0 or -ENOMEM. */
int lls_json_watch(struct lls_json *, struct lls_error *err);
/* Returns true if the key was looked up since. */
bool lls_json_was_read(const struct lls_json *, const char *key);
/* Wraps a nested object under the same file name; its keys are not recorded. */
struct lls_json lls_json_inside(const struct lls_json *file, json_t *object);

/* Returns the value of key; NULL if it is absent or null. */
json_t *lls_json_get(const struct lls_json *, const char *key);

/* Returns true if a value switches nothing on: null, false, or empty. */
static inline bool lls_json_is_off(const json_t *value)
{
  return json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && json_string_length(value) == 0) ||
         (json_is_array(value) && json_array_size(value) == 0) ||
         (json_is_object(value) && json_object_size(value) == 0);
}

/* Reads a number in 1..UINT32_MAX/2. Returns -EINVAL if it is absent. */
int lls_json_size(const struct lls_json *, const char *key, uint32_t *out,
                  struct lls_error *err);
/* Reads a size; the fallback replaces an absent or null key. */
int lls_json_size_or(const struct lls_json *, const char *key, uint32_t fallback,
                     uint32_t *out, struct lls_error *err);
int lls_json_real_or(const struct lls_json *, const char *key, double fallback,
                     double *out, struct lls_error *err);
int lls_json_bool_or(const struct lls_json *, const char *key, bool fallback, bool *out,
                     struct lls_error *err);
/* Reads a string; *out belongs to the object. */
int lls_json_string_or(const struct lls_json *, const char *key, const char *fallback,
                       const char **out, struct lls_error *err);

#endif
