/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: value | name. Those on text take any value that can be printed. */
#include "core/template/function.h"
#include "core/template/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Applies to the printed value a function of strings. */
static json_t *on_text(struct lls_render *render, const struct lls_call *call,
                       json_t *(*apply)(struct lls_render *, const json_t *,
                                        const struct lls_call *))
{
  json_t *text = lls_to_string(render, call->node, call->subject);
  json_t *result = text != NULL ? apply(render, text, call) : NULL;
  json_decref(text);
  return result;
}

static json_t *trim_text(struct lls_render *render, const json_t *text,
                         const struct lls_call *call)
{
  return lls_strip(render, text, json_string_value(call->arguments[0]), true, true);
}

static json_t *upper_text(struct lls_render *render, const json_t *text,
                          const struct lls_call *call)
{
  (void)call;
  return lls_upper(render, text);
}

static json_t *lower_text(struct lls_render *render, const json_t *text,
                          const struct lls_call *call)
{
  (void)call;
  return lls_lower(render, text);
}

static json_t *capitalize_text(struct lls_render *render, const json_t *text,
                               const struct lls_call *call)
{
  return lls_capitalize(render, text, strcmp(call->node->function->name, "title") == 0);
}

static json_t *replace_text(struct lls_render *render, const json_t *text,
                            const struct lls_call *call)
{
  json_int_t count = json_integer_value(call->arguments[2]);
  return lls_replace(render, call->node, text, call->arguments[0], call->arguments[1],
                     json_is_integer(call->arguments[2]) && count >= 0 ? (size_t)count
                                                                       : SIZE_MAX);
}

static json_t *trim(struct lls_render *render, const struct lls_call *call)
{
  return on_text(render, call, trim_text);
}

static json_t *upper(struct lls_render *render, const struct lls_call *call)
{
  return on_text(render, call, upper_text);
}

static json_t *lower(struct lls_render *render, const struct lls_call *call)
{
  return on_text(render, call, lower_text);
}

static json_t *capitalize(struct lls_render *render, const struct lls_call *call)
{
  return on_text(render, call, capitalize_text);
}

static json_t *replace(struct lls_render *render, const struct lls_call *call)
{
  return on_text(render, call, replace_text);
}

static json_t *to_text(struct lls_render *render, const struct lls_call *call)
{
  return lls_to_string(render, call->node, call->subject);
}

static json_t *length(struct lls_render *render, const struct lls_call *call)
{
  const json_t *value = call->subject;
  size_t size = json_is_string(value)   ? lls_characters(value)
                : json_is_object(value) ? json_object_size(value)
                                        : json_array_size(value);
  if (value != NULL && !json_is_string(value) && !json_is_object(value) &&
      !json_is_array(value))
    return lls_render_fail(render, call->node, "%s has no length", lls_type_name(value));
  return lls_render_made(render, json_integer((json_int_t)size));
}

static json_t *to_list(struct lls_render *render, const struct lls_call *call)
{
  return lls_to_list(render, call->node, call->subject);
}

static json_t *one_of(struct lls_render *render, const struct lls_call *call, bool last)
{
  json_t *list = lls_to_list(render, call->node, call->subject);
  size_t size = json_array_size(list);
  json_t *item = size > 0 ? json_incref(json_array_get(list, last ? size - 1 : 0)) : NULL;
  json_decref(list);
  return item;
}

static json_t *first(struct lls_render *render, const struct lls_call *call)
{
  return one_of(render, call, false);
}

static json_t *last(struct lls_render *render, const struct lls_call *call)
{
  return one_of(render, call, true);
}

static json_t *reverse(struct lls_render *render, const struct lls_call *call)
{
  json_t *list = lls_to_list(render, call->node, call->subject);
  json_t *reversed = lls_render_made(render, json_array());
  for (size_t i = json_array_size(list); i-- > 0;)
    if (!lls_render_charge(render, call->node, 1) ||
        json_array_append(reversed, json_array_get(list, i)) < 0)
      break;
  json_decref(list);
  return reversed;
}

static json_t *join(struct lls_render *render, const struct lls_call *call)
{
  json_t *list = lls_to_list(render, call->node, call->subject);
  const json_t *separator = call->arguments[0];
  struct lls_bytes out = {0};
  for (size_t i = 0; i < json_array_size(list) && render->code == 0; i++) {
    json_t *text = lls_to_string(render, call->node, json_array_get(list, i));
    if (i > 0)
      lls_bytes_append(&out, json_string_value(separator), json_string_length(separator));
    lls_bytes_append(&out, json_string_value(text), json_string_length(text));
    json_decref(text);
    lls_render_charge(render, call->node,
                      1 + LLS_WORK_OF_TEXT(json_string_length(separator)));
  }
  json_t *joined = render->code == 0 && !out.failed
                       ? lls_render_string(render, out.data, out.length)
                       : lls_render_made(render, NULL);
  lls_bytes_free(&out);
  json_decref(list);
  return joined;
}

static json_t *items(struct lls_render *render, const struct lls_call *call)
{
  return lls_pairs(render, call->node, call->subject);
}

static json_t *use_default(struct lls_render *render, const struct lls_call *call)
{
  bool missing = call->subject == NULL ||
                 (lls_truth(call->arguments[1]) && !lls_truth(call->subject));
  if (!missing)
    return json_incref(call->subject);
  return call->arguments[0] != NULL ? json_incref(call->arguments[0])
                                    : lls_render_string(render, "", 0);
}

static json_t *to_integer(struct lls_render *render, const struct lls_call *call)
{
  json_int_t value = 0;
  char *end = NULL;
  if (json_is_integer(call->subject))
    return json_incref(call->subject);
  if (json_is_string(call->subject))
    value = strtoll(json_string_value(call->subject), &end, 10);
  else if (json_is_boolean(call->subject))
    value = json_is_true(call->subject);
  else if (json_is_real(call->subject) && fabs(json_real_value(call->subject)) < 1e18)
    value = (json_int_t)json_real_value(call->subject);
  if (end != NULL && (*end != '\0' || end == json_string_value(call->subject)))
    value = json_integer_value(call->arguments[0]);
  return lls_render_made(render, json_integer(value));
}

/* JSON with Python's default spacing; indent > 0 puts every item on a line of its own. */
static json_t *to_json(struct lls_render *render, const struct lls_call *call)
{
  json_int_t indent = json_integer_value(call->arguments[1]);
  if (call->subject == NULL || indent < 0 || indent > 31)
    return lls_render_fail(render, call->node,
                           "tojson of undefined, or an indent that is not from 0 to 31");
  if (!lls_render_charge_value(render, call->node, call->subject))
    return NULL;
  size_t flags = JSON_ENCODE_ANY | JSON_INDENT((size_t)indent);
  if (lls_truth(call->arguments[0]))
    flags |= JSON_ENSURE_ASCII;
  if (lls_truth(call->arguments[2]))
    flags |= JSON_SORT_KEYS;
  char *text = json_dumps(call->subject, flags);
  json_t *result = text != NULL ? lls_render_string(render, text, strlen(text))
                                : lls_render_made(render, NULL);
  free(text);
  return result;
}

static json_t *as_it_is(struct lls_render *render, const struct lls_call *call)
{
  (void)render;
  return json_incref(call->subject);
}

/* Whether an item passes the test that the arguments from `from` on name. */
static bool passes(struct lls_render *render, const struct lls_call *call, json_t *item,
                   size_t from)
{
  const char *name = json_string_value(call->arguments[from]);
  if (call->arguments[from] == NULL)
    return lls_truth(item);
  const struct lls_function *test = name != NULL ? lls_test_find(name) : NULL;
  struct lls_call inner = {.node = call->node, .subject = item};
  if (from + 1 < LLS_PARAMETERS)
    inner.arguments[0] = call->arguments[from + 1];
  if (test == NULL || (test->required > 0 && inner.arguments[0] == NULL)) {
    lls_render_fail(render, call->node, "the test \"%s\" is not supported here",
                    name != NULL ? name : "(not a name)");
    return false;
  }
  json_t *result = test->body(render, &inner);
  bool truth = lls_truth(result);
  json_decref(result);
  return truth;
}

/* What a filter of lists goes through: nothing, where the value counts as false. */
static json_t *list_of(struct lls_render *render, const struct lls_call *call)
{
  if (!lls_truth(call->subject))
    return lls_render_made(render, json_array());
  return lls_to_list(render, call->node, call->subject);
}

/* select and reject, by the item itself or by a member of it. */
static json_t *choose(struct lls_render *render, const struct lls_call *call,
                      bool by_member, bool wanted)
{
  json_t *list = list_of(render, call);
  json_t *chosen = lls_render_made(render, json_array());
  const char *member = by_member ? json_string_value(call->arguments[0]) : NULL;
  for (size_t i = 0; i < json_array_size(list) && render->code == 0; i++) {
    json_t *item = json_array_get(list, i);
    json_t *value = member != NULL ? json_object_get(item, member) : item;
    if (lls_render_charge(render, call->node, 1) &&
        passes(render, call, value, by_member) == wanted)
      json_array_append(chosen, item);
  }
  json_decref(list);
  return chosen;
}

static json_t *select_items(struct lls_render *render, const struct lls_call *call)
{
  return choose(render, call, false, true);
}

static json_t *reject_items(struct lls_render *render, const struct lls_call *call)
{
  return choose(render, call, false, false);
}

static json_t *select_by_member(struct lls_render *render, const struct lls_call *call)
{
  return choose(render, call, true, true);
}

static json_t *reject_by_member(struct lls_render *render, const struct lls_call *call)
{
  return choose(render, call, true, false);
}

/* map(attribute="name"): the members of that name. */
static json_t *map_members(struct lls_render *render, const struct lls_call *call)
{
  json_t *list = list_of(render, call);
  json_t *mapped = lls_render_made(render, json_array());
  const char *name = json_string_value(json_object_get(call->keywords, "attribute"));
  if (name == NULL)
    lls_render_fail(render, call->node, "map is only supported with attribute=\"...\"");
  for (size_t i = 0; i < json_array_size(list) && render->code == 0; i++) {
    json_t *value = json_object_get(json_array_get(list, i), name);
    if (lls_render_charge(render, call->node, 1))
      json_array_append(mapped, value != NULL ? value : json_null());
  }
  json_decref(list);
  return mapped;
}

static const struct lls_function filters[] = {
    {.name = "capitalize", .body = capitalize},
    {.name = "count", .body = length},
    {.name = "d", .body = use_default, .parameters = {"default_value", "boolean"}},
    {.name = "default", .body = use_default, .parameters = {"default_value", "boolean"}},
    {.name = "first", .body = first},
    {.name = "int", .body = to_integer, .parameters = {"default"}},
    {.name = "items", .body = items},
    {.name = "join", .body = join, .parameters = {"d"}},
    {.name = "last", .body = last},
    {.name = "length", .body = length},
    {.name = "list", .body = to_list},
    {.name = "lower", .body = lower},
    {.name = "map", .body = map_members, .open = true},
    {.name = "reject", .body = reject_items, .parameters = {"test", "argument"}},
    {.name = "rejectattr",
     .body = reject_by_member,
     .required = 1,
     .parameters = {"attribute", "test", "argument"}},
    {.name = "replace",
     .body = replace,
     .required = 2,
     .parameters = {"old", "new", "count"}},
    {.name = "reverse", .body = reverse},
    {.name = "safe", .body = as_it_is},
    {.name = "select", .body = select_items, .parameters = {"test", "argument"}},
    {.name = "selectattr",
     .body = select_by_member,
     .required = 1,
     .parameters = {"attribute", "test", "argument"}},
    {.name = "string", .body = to_text},
    {.name = "title", .body = capitalize},
    {.name = "tojson",
     .body = to_json,
     .parameters = {"ensure_ascii", "indent", "sort_keys"}},
    {.name = "trim", .body = trim, .parameters = {"chars"}},
    {.name = "upper", .body = upper},
    {.name = NULL},
};

const struct lls_function *lls_filter_find(const char *name)
{
  return lls_function_in(filters, name);
}
