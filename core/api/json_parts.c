/* SPDX-License-Identifier: Apache-2.0 */
/* Jansson does not always tell its callers that there was no memory: these do; see
 * json_parts.h. */
#include "core/api/json_parts.h"

#include "core/base/text.h"

/* The value is given back by Jansson where it is not taken, also where it is of an object
 * that is NULL already: callers go on to the end and look once. */
void lls_wire_put(json_t **object, const char *key, json_t *value)
{
  if (json_object_set_new(*object, key, value) == 0)
    return;
  json_decref(*object);
  *object = NULL;
}

void lls_wire_add(json_t **array, json_t *value)
{
  if (json_array_append_new(*array, value) == 0)
    return;
  json_decref(*array);
  *array = NULL;
}

static int append_text(const char *bytes, size_t n, void *text)
{
  lls_text_append(text, bytes, n);
  return ((struct lls_text *)text)->failed ? -1 : 0;
}

/* Jansson 2.14 does not look whether the name of a member could be written. */
char *lls_wire_text(const json_t *json)
{
  struct lls_text text = {0};
  int rc = json != NULL ? json_dump_callback(json, append_text, &text, JSON_COMPACT) : -1;
  if (rc != 0 || text.failed)
    lls_text_free(&text);
  return text.data;
}
