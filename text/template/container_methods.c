/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods of lists, tuples and mappings, as in Python.
 *
 * Transformers renders in a sandbox that forbids methods which modify a value.
 * Templates written for other programs use them, so they are allowed here: they modify
 * values of this rendering only, never the caller's.
 */
#include "text/template/function.h"

#include <string.h>

/* ---- lists ------------------------------------------------------------------------- */

static struct lls_value append(struct lls_render *render, const struct lls_call *call)
{
  lls_list_push(render, call->subject.list, call->arguments[0]);
  return lls_none();
}

static struct lls_value extend(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *more = lls_list_copy(render, call->node, call->arguments[0]);
  for (uint32_t i = 0; more != NULL && i < more->count && render->code == 0; i++)
    lls_list_push(render, call->subject.list, more->items[i]);
  return lls_none();
}

static struct lls_value insert(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = call->subject.list;
  int64_t at = lls_integer_argument(render, call, 0, 0), size = list->count;
  at = at < 0 ? (at + size < 0 ? 0 : at + size) : at > size ? size : at;
  if (!lls_render_charge(render, call->node, (size_t)(size - at)) ||
      !lls_list_push(render, list, lls_none()))
    return lls_undefined();
  memmove(list->items + at + 1, list->items + at,
          (size_t)(size - at) * sizeof *list->items);
  list->items[at] = call->arguments[1];
  return lls_none();
}

static void remove_at(struct lls_render *render, const struct lls_call *call,
                      struct lls_list *list, uint32_t at)
{
  if (!lls_render_charge(render, call->node, list->count - at))
    return;
  list->count--;
  memmove(list->items + at, list->items + at + 1,
          (list->count - at) * sizeof *list->items);
}

static struct lls_value pop_item(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = call->subject.list;
  int64_t at = lls_integer_argument(render, call, 0, -1);
  at = at < 0 ? at + list->count : at;
  if (at < 0 || at >= list->count)
    return lls_render_fail(render, call->node, "pop of an item that is not there");
  struct lls_value item = list->items[at];
  remove_at(render, call, list, (uint32_t)at);
  return item;
}

/* Returns the index of the first equal item, or -1. */
static int64_t position(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = call->subject.list;
  for (uint32_t i = 0; i < list->count && render->code == 0; i++)
    if (lls_equal(render, list->items[i], call->arguments[0]))
      return i;
  return -1;
}

static struct lls_value remove_item(struct lls_render *render,
                                    const struct lls_call *call)
{
  int64_t at = position(render, call);
  if (at < 0)
    return lls_render_fail(render, call->node, "remove of an item that is not there");
  remove_at(render, call, call->subject.list, (uint32_t)at);
  return lls_none();
}

static struct lls_value index_of(struct lls_render *render, const struct lls_call *call)
{
  int64_t at = position(render, call);
  return at >= 0
             ? lls_integer(at)
             : lls_render_fail(render, call->node, "index of an item that is not there");
}

static struct lls_value count(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = call->subject.list;
  int64_t times = 0;
  for (uint32_t i = 0; i < list->count && render->code == 0; i++)
    times += lls_equal(render, list->items[i], call->arguments[0]);
  return lls_integer(times);
}

static struct lls_value reverse(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = call->subject.list;
  if (!lls_render_charge(render, call->node, list->count))
    return lls_undefined();
  for (uint32_t i = 0; i < list->count / 2; i++) {
    struct lls_value item = list->items[i];
    list->items[i] = list->items[list->count - 1 - i];
    list->items[list->count - 1 - i] = item;
  }
  return lls_none();
}

static struct lls_value sort(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *keys = lls_list_copy(render, call->node, call->subject);
  if (keys != NULL)
    lls_sort(render, call->node, keys->items, call->subject.list->items, keys->count,
             lls_truth(call->arguments[0]));
  return lls_none();
}

static struct lls_value clear_list(struct lls_render *render, const struct lls_call *call)
{
  (void)render;
  call->subject.list->count = 0;
  return lls_none();
}

static struct lls_value copy_list(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_list(lls_list_copy(render, call->node, call->subject));
}

const struct lls_function lls_list_methods[] = {
    {.name = "append", .body = append, .required = 1, .parameters = {"object"}},
    {.name = "clear", .body = clear_list},
    {.name = "copy", .body = copy_list},
    {.name = "count", .body = count, .required = 1, .parameters = {"value"}},
    {.name = "extend", .body = extend, .required = 1, .parameters = {"iterable"}},
    {.name = "index", .body = index_of, .required = 1, .parameters = {"value"}},
    {.name = "insert", .body = insert, .required = 2, .parameters = {"index", "object"}},
    {.name = "pop", .body = pop_item, .parameters = {"index"}},
    {.name = "remove", .body = remove_item, .required = 1, .parameters = {"value"}},
    {.name = "reverse", .body = reverse},
    {.name = "sort", .body = sort, .parameters = {"reverse"}},
    {.name = NULL},
};

const struct lls_function lls_tuple_methods[] = {
    {.name = "count", .body = count, .required = 1, .parameters = {"value"}},
    {.name = "index", .body = index_of, .required = 1, .parameters = {"value"}},
    {.name = NULL},
};

/* ---- mappings ---------------------------------------------------------------------- */

static struct lls_value items(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_list(lls_dict_list(render, call->subject.dict, LLS_FORM_ITEMS));
}

static struct lls_value keys(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_list(lls_dict_list(render, call->subject.dict, LLS_FORM_KEYS));
}

static struct lls_value values(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_list(lls_dict_list(render, call->subject.dict, LLS_FORM_VALUES));
}

static struct lls_value get(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_value *found =
      lls_dict_find(render, call->subject.dict, call->arguments[0]);
  return found != NULL ? *found : lls_given(call, 1) ? call->arguments[1] : lls_none();
}

static struct lls_value pop_key(struct lls_render *render, const struct lls_call *call)
{
  struct lls_dict *dict = call->subject.dict;
  const struct lls_value *found = lls_dict_find(render, dict, call->arguments[0]);
  if (found == NULL)
    return lls_given(call, 1)
               ? call->arguments[1]
               : lls_render_fail(render, call->node, "pop of a key that is not there");
  struct lls_value value = *found;
  lls_dict_remove(render, dict, call->arguments[0]);
  return value;
}

static struct lls_value setdefault(struct lls_render *render, const struct lls_call *call)
{
  struct lls_dict *dict = call->subject.dict;
  const struct lls_value *found = lls_dict_find(render, dict, call->arguments[0]);
  if (found != NULL)
    return *found;
  struct lls_value value = lls_given(call, 1) ? call->arguments[1] : lls_none();
  lls_dict_set(render, dict, call->arguments[0], value);
  return value;
}

static void add_all(struct lls_render *render, struct lls_dict *dict,
                    const struct lls_dict *more)
{
  const struct lls_entry *entry;
  uint32_t at = 0;
  while (more != dict && (entry = lls_dict_next(more, &at)) != NULL && render->code == 0)
    lls_dict_set(render, dict, entry->key, entry->value);
}

static struct lls_value update(struct lls_render *render, const struct lls_call *call)
{
  struct lls_dict *dict = call->subject.dict;
  for (uint32_t i = 0; call->positional != NULL && i < call->positional->count; i++) {
    if (call->positional->items[i].kind != LLS_DICT)
      return lls_render_fail(render, call->node, "update needs a mapping");
    add_all(render, dict, call->positional->items[i].dict);
  }
  if (call->keywords != NULL)
    add_all(render, dict, call->keywords);
  return lls_none();
}

static struct lls_value clear_dict(struct lls_render *render, const struct lls_call *call)
{
  (void)render;
  *call->subject.dict = (struct lls_dict){0};
  return lls_none();
}

static struct lls_value copy_dict(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_dict(lls_dict_copy(render, call->subject.dict));
}

const struct lls_function lls_dict_methods[] = {
    {.name = "clear", .body = clear_dict},
    {.name = "copy", .body = copy_dict},
    {.name = "get", .body = get, .required = 1, .parameters = {"key", "default"}},
    {.name = "items", .body = items},
    {.name = "keys", .body = keys},
    {.name = "pop", .body = pop_key, .required = 1, .parameters = {"key", "default"}},
    {.name = "setdefault",
     .body = setdefault,
     .required = 1,
     .parameters = {"key", "default"}},
    {.name = "update", .body = update, .open = true},
    {.name = "values", .body = values},
    {.name = NULL},
};
