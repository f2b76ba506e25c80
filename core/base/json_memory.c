/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the failures of Jansson's allocations, which malloc serves; see
 * json_memory.h. */
#include "core/base/json_memory.h"

#include <stdlib.h>

#include "core/base/text.h"

static _Thread_local uint64_t shortages;

static void *take(size_t bytes)
{
  void *block = malloc(bytes);
  shortages += block == NULL;
  return block;
}

void lls_json_memory_watch(void)
{
  json_set_alloc_funcs(take, free);
}

uint64_t lls_json_shortages(void)
{
  return shortages;
}

void lls_json_note_shortage(void)
{
  shortages++;
}

/* If *object is NULL or memory is short, Jansson releases the value. Callers therefore
 * add all members and check for NULL once, at the end. */
void lls_json_put(json_t **object, const char *key, json_t *value)
{
  if (json_object_set_new(*object, key, value) == 0)
    return;
  json_decref(*object);
  *object = NULL;
}

void lls_json_add(json_t **array, json_t *value)
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

/* Uses a callback, which records a failed write in `text`: Jansson does not check if a
 * member's name could be written. */
char *lls_json_text(const json_t *json, size_t flags)
{
  struct lls_text text = {0};
  int rc = json != NULL ? json_dump_callback(json, append_text, &text, flags) : -1;
  if (rc != 0 || text.failed)
    lls_text_free(&text);
  return text.data;
}
