/* SPDX-License-Identifier: Apache-2.0 */
/* See response_item.h. */
#include "core/batch/response_item.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/batch/response_table.h"
#include "core/batch/store_internal.h"

#define HEX_DIGITS 32

/* Writes the id of the response that the item belongs to. Returns false if the id is not
 * that of an item of an answer. */
static bool response_of(const char *item, char out[LLS_RESPONSE_ITEM_BYTES])
{
  const char *name = strchr(item, '_');
  const char *dash = strrchr(item, '-');
  if (name == NULL || strlen(name) > LLS_RESPONSE_ITEM_BYTES - 32)
    return false;
  name++;
  const char *hex = dash != NULL && dash > name ? dash + 1 : name;
  if (strspn(hex, "0123456789abcdef") <= HEX_DIGITS)
    return false;
  snprintf(out, LLS_RESPONSE_ITEM_BYTES, LLS_RESPONSE_PREFIX "%.*s",
           (int)(hex - name) + HEX_DIGITS, name);
  return true;
}

/* Returns the item of a response's output, borrowed, or NULL. */
static json_t *item_of(const json_t *object, const char *id)
{
  size_t i;
  json_t *item;
  json_array_foreach(json_object_get(object, "output"), i, item)
  {
    const char *found = json_string_value(json_object_get(item, "id"));
    if (found != NULL && strcmp(found, id) == 0)
      return item;
  }
  return NULL;
}

/* The response that was read last: references to one answer follow each other. */
struct last {
  char id[LLS_RESPONSE_ITEM_BYTES];
  json_t *object;
};

static json_t *find(struct lls_store *store, const char *tenant, const char *id,
                    struct last *last)
{
  struct lls_error err = {0};
  char response[LLS_RESPONSE_ITEM_BYTES];
  int status;
  if (!response_of(id, response))
    return NULL;
  if (last->object == NULL || strcmp(last->id, response) != 0) {
    json_decref(last->object);
    last->object = lls_responses_find(store, tenant, response, NULL, &status, &err);
    strcpy(last->id, response);
  }
  return item_of(last->object, id);
}

json_t *lls_response_items_named(struct lls_store *store, const char *tenant,
                                 const json_t *ids, int *status, struct lls_error *err)
{
  struct last last = {0};
  json_t *named = json_object();
  size_t i, bytes = 0;
  const json_t *id;
  *status = 0;
  json_array_foreach((json_t *)ids, i, id)
  {
    const char *text = json_string_value(id);
    json_t *item = *status == 0 ? find(store, tenant, text, &last) : NULL;
    if (*status == 0 && item == NULL)
      *status =
          lls_fail(err, -ENOENT, "there is no item '%.80s' in a stored response", text);
    bytes += item != NULL ? json_dumpb(item, NULL, 0, JSON_COMPACT) : 0;
    if (*status == 0 && bytes > store->max_line)
      *status = lls_fail(err, -EFBIG,
                         "the items that 'input' refers to are larger than "
                         "[server] max_body");
    if (*status == 0)
      json_object_set(named, text, item);
  }
  json_decref(last.object);
  if (*status == 0)
    return named;
  json_decref(named);
  return NULL;
}
