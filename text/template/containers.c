/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and mappings in the arena of a rendering; see value.h. */
#include "text/template/state.h"
#include "text/base/utf8.h"

#include <math.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------- */

struct lls_list *lls_list_new(struct lls_render *render, enum lls_list_form form)
{
  struct lls_list *list = lls_render_alloc(render, sizeof *list);
  if (list != NULL)
    *list = (struct lls_list){.form = form};
  return list;
}

static bool grow_list(struct lls_render *render, struct lls_list *list)
{
  size_t capacity = list->capacity < 4 ? 4 : 2 * (size_t)list->capacity;
  if (capacity > UINT32_MAX / 2)
    return false;
  struct lls_value *items = lls_render_alloc(render, capacity * sizeof *items);
  if (items == NULL)
    return false;
  if (list->count > 0)
    memcpy(items, list->items, list->count * sizeof *items);
  list->items = items;
  list->capacity = (uint32_t)capacity;
  return true;
}

bool lls_list_push(struct lls_render *render, struct lls_list *list,
                   struct lls_value value)
{
  if (list == NULL || !lls_render_charge(render, NULL, 1) ||
      (list->count == list->capacity && !grow_list(render, list)))
    return false;
  list->items[list->count++] = value;
  return true;
}

static struct lls_list *characters(struct lls_render *render, struct lls_value string)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  for (size_t at = 0, size; at < string.length; at += size) {
    size = lls_utf8_length(string.text + at);
    if (!lls_list_push(render, list, lls_view(string.text + at, size)))
      return NULL;
  }
  return list;
}

/* Takes the remaining items of a generator. */
static struct lls_list *rest(struct lls_render *render, struct lls_generator *generator)
{
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  if (list == NULL)
    return NULL;
  list->count = generator->list->count - generator->next;
  if (list->count > 0)
    list->items = generator->list->items + generator->next;
  list->capacity = list->count;
  generator->next = generator->list->count;
  return list;
}

struct lls_list *lls_items_of(struct lls_render *render, const struct lls_node *node,
                              struct lls_value value)
{
  if (render->code < 0)
    return NULL;
  switch (value.kind) {
  case LLS_LIST:
    return value.list;
  case LLS_STRING:
    return characters(render, value);
  case LLS_DICT:
    return lls_dict_list(render, value.dict, LLS_FORM_KEYS);
  case LLS_GENERATOR:
    return rest(render, value.generator);
  case LLS_UNDEFINED:
    return lls_list_new(render, LLS_FORM_LIST);
  default:
    lls_render_fail(render, node, "cannot go through %s", lls_type_name(value));
    return NULL;
  }
}

struct lls_list *lls_list_copy(struct lls_render *render, const struct lls_node *node,
                               struct lls_value value)
{
  const struct lls_list *items = lls_items_of(render, node, value);
  struct lls_list *copy = lls_list_new(render, LLS_FORM_LIST);
  if (items == NULL || copy == NULL || items->count == 0)
    return items != NULL ? copy : NULL;
  copy->items = lls_render_alloc(render, items->count * sizeof *items->items);
  if (copy->items == NULL)
    return NULL;
  memcpy(copy->items, items->items, items->count * sizeof *items->items);
  copy->count = copy->capacity = items->count;
  return copy;
}

struct lls_value lls_generate(struct lls_render *render, struct lls_list *list)
{
  struct lls_generator *generator = lls_render_alloc(render, sizeof *generator);
  if (generator == NULL || list == NULL)
    return lls_undefined();
  *generator = (struct lls_generator){.list = list};
  return (struct lls_value){.kind = LLS_GENERATOR, .generator = generator};
}

struct lls_value lls_pair(struct lls_render *render, enum lls_list_form form,
                          struct lls_value first, struct lls_value second)
{
  struct lls_list *list = lls_list_new(render, form);
  lls_list_push(render, list, first);
  lls_list_push(render, list, second);
  return lls_of_list(list);
}

/* ---- mappings ---------------------------------------------------------------------- */

#define SMALL 8 /* entries up to which a mapping is searched linearly */

struct lls_dict *lls_dict_new(struct lls_render *render)
{
  struct lls_dict *dict = lls_render_alloc(render, sizeof *dict);
  if (dict != NULL)
    *dict = (struct lls_dict){0};
  return dict;
}

void lls_dict_clear(struct lls_dict *dict)
{
  dict->used = dict->count = 0;
  if (dict->slots > 0)
    memset(dict->index, 0, dict->slots * sizeof *dict->index);
}

/* Returns the form in which a key is stored and compared: equal numbers are the same
 * key. */
static struct lls_value canonical(struct lls_value key)
{
  if (key.kind == LLS_BOOLEAN)
    return lls_integer(key.boolean);
  if (key.kind == LLS_REAL && fabs(key.real) < 9e15 && key.real == floor(key.real))
    return lls_integer((int64_t)key.real);
  return key;
}

static bool is_key(struct lls_value key)
{
  return lls_is_string(key) || lls_is_number(key) || key.kind == LLS_NONE;
}

static bool same_key(struct lls_value left, struct lls_value right)
{
  left = canonical(left);
  right = canonical(right);
  if (left.kind != right.kind)
    return false;
  if (left.kind == LLS_STRING)
    return left.length == right.length &&
           (left.text == right.text || memcmp(left.text, right.text, left.length) == 0);
  return left.kind == LLS_NONE ||
         (left.kind == LLS_INTEGER ? left.integer == right.integer
                                   : left.real == right.real);
}

static uint32_t hash(struct lls_value key)
{
  uint64_t h = 0xcbf29ce484222325u;
  key = canonical(key);
  if (key.kind == LLS_STRING)
    for (uint32_t i = 0; i < key.length; i++)
      h = (h ^ (unsigned char)key.text[i]) * 0x100000001b3u;
  else if (key.kind != LLS_NONE)
    h = (h ^ (uint64_t)key.integer) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h ^ h >> 32);
}

/* Returns the slot of a key, or the free slot for it. Probes are charged as work, so
 * that keys chosen to collide reach the limit. */
static uint32_t *find_slot(struct lls_render *render, const struct lls_dict *dict,
                           struct lls_value key)
{
  uint32_t at = hash(key) & (dict->slots - 1);
  for (; dict->index[at] != 0; at = (at + 1) & (dict->slots - 1)) {
    if (same_key(dict->entries[dict->index[at] - 1].key, key))
      break;
    if (!lls_render_charge(render, NULL, 1))
      break;
  }
  return &dict->index[at];
}

static struct lls_entry *find(struct lls_render *render, const struct lls_dict *dict,
                              struct lls_value key)
{
  lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(lls_is_string(key) ? key.length : 0));
  if (dict->slots > 0) {
    uint32_t number = *find_slot(render, dict, key);
    return number > 0 && same_key(dict->entries[number - 1].key, key)
               ? &dict->entries[number - 1]
               : NULL;
  }
  for (uint32_t i = 0; i < dict->used; i++)
    if (same_key(dict->entries[i].key, key))
      return &dict->entries[i];
  return NULL;
}

struct lls_value *lls_dict_find(struct lls_render *render, const struct lls_dict *dict,
                                struct lls_value key)
{
  struct lls_entry *entry = is_key(key) ? find(render, dict, key) : NULL;
  return entry != NULL && render->code == 0 ? &entry->value : NULL;
}

/* Doubles the room, and drops removed entries. */
static bool grow_dict(struct lls_render *render, struct lls_dict *dict)
{
  size_t capacity = dict->count < SMALL / 2 ? SMALL : 4 * (size_t)dict->count;
  size_t slots = capacity <= SMALL ? 0 : 2;
  while (slots > 0 && slots < 2 * capacity)
    slots *= 2;
  struct lls_dict grown = {.capacity = (uint32_t)capacity, .slots = (uint32_t)slots};
  grown.entries = lls_render_alloc(render, capacity * sizeof *grown.entries);
  grown.index = lls_render_alloc(render, slots * sizeof *grown.index);
  if (grown.entries == NULL || grown.index == NULL ||
      !lls_render_charge(render, NULL, dict->count))
    return false;
  memset(grown.index, 0, slots * sizeof *grown.index);
  for (uint32_t i = 0; i < dict->used; i++) {
    if (dict->entries[i].key.kind == LLS_UNDEFINED)
      continue;
    grown.entries[grown.used++] = dict->entries[i];
    if (slots > 0)
      *find_slot(render, &grown, dict->entries[i].key) = grown.used;
  }
  grown.count = grown.used;
  *dict = grown;
  return render->code == 0;
}

bool lls_dict_set(struct lls_render *render, struct lls_dict *dict, struct lls_value key,
                  struct lls_value value)
{
  if (dict == NULL || render->code < 0)
    return false;
  if (!is_key(key)) {
    lls_render_fail(render, NULL, "%s cannot be a key", lls_type_name(key));
    return false;
  }
  struct lls_entry *entry = find(render, dict, key);
  if (entry != NULL) {
    entry->value = value;
    return true;
  }
  if (!lls_render_charge(render, NULL, 1) ||
      (dict->used == dict->capacity && !grow_dict(render, dict)))
    return false;
  dict->entries[dict->used++] = (struct lls_entry){key, value};
  dict->count++;
  if (dict->slots > 0)
    *find_slot(render, dict, key) = dict->used;
  return render->code == 0;
}

void lls_dict_remove(struct lls_render *render, struct lls_dict *dict,
                     struct lls_value key)
{
  struct lls_entry *entry = is_key(key) ? find(render, dict, key) : NULL;
  if (entry == NULL)
    return;
  entry->key = lls_undefined(); /* the slot remains, so that probing continues past it */
  dict->count--;
}

struct lls_entry *lls_dict_next(const struct lls_dict *dict, uint32_t *at)
{
  while (*at < dict->used && dict->entries[*at].key.kind == LLS_UNDEFINED)
    ++*at;
  return *at < dict->used ? &dict->entries[(*at)++] : NULL;
}

struct lls_list *lls_dict_list(struct lls_render *render, const struct lls_dict *dict,
                               enum lls_list_form form)
{
  struct lls_list *list = lls_list_new(render, form);
  const struct lls_entry *entry;
  uint32_t at = 0;
  while ((entry = lls_dict_next(dict, &at)) != NULL) {
    struct lls_value item =
        form == LLS_FORM_KEYS ? entry->key
        : form == LLS_FORM_VALUES
            ? entry->value
            : lls_pair(render, LLS_FORM_TUPLE, entry->key, entry->value);
    if (!lls_list_push(render, list, item))
      return NULL;
  }
  return list;
}

struct lls_dict *lls_dict_copy(struct lls_render *render, const struct lls_dict *dict)
{
  struct lls_dict *copy = lls_dict_new(render);
  const struct lls_entry *entry;
  uint32_t at = 0;
  while ((entry = lls_dict_next(dict, &at)) != NULL)
    if (!lls_dict_set(render, copy, entry->key, entry->value))
      return NULL;
  return copy;
}
