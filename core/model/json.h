/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed look-ups in a JSON object that came from a file, for config.json and its like:
 * a value of the wrong type or out of range gets a sentence with file and key.
 */
#ifndef LLS_MODEL_JSON_H
#define LLS_MODEL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_json {
  char file[512]; /* for messages */
  json_t *root;   /* an object */
  json_t *names;  /* that were looked up, once lls_json_watch was called; else NULL */
};

/* Reads an object; -ENOENT if there is no such file. Close with lls_json_close. */
int lls_json_read(const char *folder, const char *name, struct lls_json *out,
                  struct lls_error *err);
void lls_json_close(struct lls_json *);

/* Keeps the names that are looked up from here on; they are of this object, not of one
 * within it. 0 or -ENOMEM. */
int lls_json_watch(struct lls_json *, struct lls_error *err);
/* True if the key was looked up since. */
bool lls_json_was_read(const struct lls_json *, const char *key);
/* An object in the file's, under the file's name; its keys are not watched. */
struct lls_json lls_json_inside(const struct lls_json *file, json_t *object);

/* The value of key; NULL if absent or null. */
json_t *lls_json_get(const struct lls_json *, const char *key);

/* True if a value switches nothing on: null, false, or empty. */
static inline bool lls_json_is_off(const json_t *value)
{
  return json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && json_string_length(value) == 0) ||
         (json_is_array(value) && json_array_size(value) == 0) ||
         (json_is_object(value) && json_object_size(value) == 0);
}

/* 1..UINT32_MAX/2; -EINVAL if absent. */
int lls_json_size(const struct lls_json *, const char *key, uint32_t *out,
                  struct lls_error *err);
/* The same, with a value for an absent or null key. */
int lls_json_size_or(const struct lls_json *, const char *key, uint32_t fallback,
                     uint32_t *out, struct lls_error *err);
int lls_json_real_or(const struct lls_json *, const char *key, double fallback,
                     double *out, struct lls_error *err);
int lls_json_bool_or(const struct lls_json *, const char *key, bool fallback, bool *out,
                     struct lls_error *err);
/* *out belongs to the object. */
int lls_json_string_or(const struct lls_json *, const char *key, const char *fallback,
                       const char **out, struct lls_error *err);

#endif
