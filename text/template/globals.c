/* SPDX-License-Identifier: Apache-2.0 */
/* Global functions: name(). */
#include "text/template/function.h"

#include <time.h>

#define MOST_RANGE 100000 /* items, the limit of Jinja's sandbox */

/* Lets a template reject messages; its sentence is shown to the client. */
static struct lls_value raise_exception(struct lls_render *render,
                                        const struct lls_call *call)
{
  struct lls_value message = lls_to_text(render, call->node, call->arguments[0]);
  return lls_render_fail(render, NULL, "%.*s", (int)message.length, message.text);
}

/* dict(mapping or pairs, name=value...) */
static struct lls_dict *collect(struct lls_render *render, const struct lls_call *call)
{
  struct lls_dict *dict = lls_dict_new(render);
  struct lls_value first = lls_undefined();
  const struct lls_entry *entry;
  uint32_t at = 0;
  if (call->positional != NULL && call->positional->count > 0)
    first = call->positional->items[0];
  if (first.kind == LLS_DICT)
    dict = lls_dict_copy(render, first.dict);
  const struct lls_list *pairs =
      first.kind != LLS_DICT ? lls_items_of(render, call->node, first) : NULL;
  for (uint32_t i = 0; pairs != NULL && i < pairs->count && render->code == 0; i++) {
    struct lls_value pair = pairs->items[i];
    if (!lls_is_sequence(pair) || pair.list->count != 2)
      lls_render_fail(render, call->node, "\"%s\" needs pairs", call->function->name);
    else
      lls_dict_set(render, dict, pair.list->items[0], pair.list->items[1]);
  }
  while (call->keywords != NULL && (entry = lls_dict_next(call->keywords, &at)) != NULL)
    if (!lls_dict_set(render, dict, entry->key, entry->value))
      break;
  return dict;
}

static struct lls_value make_dict(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_dict(collect(render, call));
}

static struct lls_value make_namespace(struct lls_render *render,
                                       const struct lls_call *call)
{
  struct lls_dict *dict = collect(render, call);
  return dict != NULL ? (struct lls_value){.kind = LLS_NAMESPACE, .dict = dict}
                      : lls_undefined();
}

static struct lls_value make_range(struct lls_render *render, const struct lls_call *call)
{
  bool one = !lls_given(call, 1);
  int64_t start = one ? 0 : lls_integer_argument(render, call, 0, 0);
  int64_t stop = lls_integer_argument(render, call, one ? 0 : 1, 0);
  int64_t step = lls_integer_argument(render, call, 2, 1);
  if (render->code == 0 && step == 0)
    return lls_render_fail(render, call->node, "range with step 0 is not possible");
  struct lls_list *list = lls_list_new(render, LLS_FORM_LIST);
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (list != NULL && list->count == MOST_RANGE)
      return lls_render_fail(render, call->node, "a range of more than %d items",
                             MOST_RANGE);
    if (!lls_list_push(render, list, lls_integer(i)) ||
        __builtin_add_overflow(i, step, &i))
      break;
  }
  return lls_of_list(list);
}

static struct lls_value strftime_now(struct lls_render *render,
                                     const struct lls_call *call)
{
  char format[256], text[512];
  time_t now = (time_t)render->unix_time;
  struct tm local;
  struct lls_value given = call->arguments[0];
  if (!lls_string_argument(render, call, 0) || given.length >= sizeof format ||
      localtime_r(&now, &local) == NULL)
    return lls_render_fail(render, call->node, "strftime_now needs a short format");
  for (size_t i = 0; i < given.length; i++)
    format[i] = given.text[i];
  format[given.length] = '\0';
  return lls_render_string(render, text, strftime(text, sizeof text, format, &local));
}

static const struct lls_function globals[] = {
    {.name = "dict", .body = make_dict, .open = true},
    {.name = "namespace", .body = make_namespace, .open = true},
    {.name = "raise_exception",
     .body = raise_exception,
     .required = 1,
     .parameters = {"message"}},
    {.name = "range",
     .body = make_range,
     .required = 1,
     .parameters = {"start", "stop", "step"}},
    {.name = "strftime_now",
     .body = strftime_now,
     .required = 1,
     .parameters = {"format"}},
    {.name = NULL},
};

const struct lls_function *lls_global_find(const char *name, size_t length)
{
  return lls_function_in(globals, name, length);
}
