/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings and mappings, as Python has them. */
#include "core/template/function.h"
#include "core/template/state.h"

#include "core/tokenizer/utf8.h"

#include <string.h>

static bool is_string(struct lls_render *render, const struct lls_call *call)
{
  if (json_is_string(call->subject))
    return true;
  lls_render_fail(render, call->node, "%s has no method \"%s\"",
                  lls_type_name(call->subject), call->node->name);
  return false;
}

static bool is_mapping(struct lls_render *render, const struct lls_call *call)
{
  if (json_is_object(call->subject))
    return true;
  lls_render_fail(render, call->node, "%s has no method \"%s\"",
                  lls_type_name(call->subject), call->node->name);
  return false;
}

static json_t *strip_ends(struct lls_render *render, const struct lls_call *call,
                          bool left, bool right)
{
  return is_string(render, call)
             ? lls_strip(render, call->subject, json_string_value(call->arguments[0]),
                         left, right)
             : NULL;
}

static json_t *strip(struct lls_render *render, const struct lls_call *call)
{
  return strip_ends(render, call, true, true);
}

static json_t *lstrip(struct lls_render *render, const struct lls_call *call)
{
  return strip_ends(render, call, true, false);
}

static json_t *rstrip(struct lls_render *render, const struct lls_call *call)
{
  return strip_ends(render, call, false, true);
}

static json_t *upper(struct lls_render *render, const struct lls_call *call)
{
  return is_string(render, call) ? lls_upper(render, call->subject) : NULL;
}

static json_t *lower(struct lls_render *render, const struct lls_call *call)
{
  return is_string(render, call) ? lls_lower(render, call->subject) : NULL;
}

static json_t *capitalize(struct lls_render *render, const struct lls_call *call)
{
  return is_string(render, call) ? lls_capitalize(render, call->subject, false) : NULL;
}

static json_t *title(struct lls_render *render, const struct lls_call *call)
{
  return is_string(render, call) ? lls_capitalize(render, call->subject, true) : NULL;
}

/* Whether the string has the argument at its start, or at its end. */
static json_t *has_part(struct lls_render *render, const struct lls_call *call,
                        bool at_end)
{
  const json_t *part = call->arguments[0];
  if (!is_string(render, call))
    return NULL;
  if (!json_is_string(part))
    return lls_render_fail(render, call->node, "\"%s\" needs a string", call->node->name);
  size_t length = json_string_length(call->subject), size = json_string_length(part);
  if (size > length)
    return json_false();
  const char *text = json_string_value(call->subject) + (at_end ? length - size : 0);
  return json_boolean(memcmp(text, json_string_value(part), size) == 0);
}

static json_t *startswith(struct lls_render *render, const struct lls_call *call)
{
  return has_part(render, call, false);
}

static json_t *endswith(struct lls_render *render, const struct lls_call *call)
{
  return has_part(render, call, true);
}

static json_t *replace(struct lls_render *render, const struct lls_call *call)
{
  json_int_t count = json_integer_value(call->arguments[2]);
  if (!is_string(render, call))
    return NULL;
  return lls_replace(
      render, call->node, call->subject, call->arguments[0], call->arguments[1],
      json_is_integer(call->arguments[2]) && count >= 0 ? (size_t)count : SIZE_MAX);
}

static size_t skip_spaces(const char *text, size_t length, size_t at)
{
  while (at < length && lls_char_is_space(lls_utf8_char(text + at)))
    at += lls_utf8_length(text + at);
  return at;
}

/* At runs of white space, none of which makes an empty part. */
static json_t *split_words(struct lls_render *render, const json_t *string, size_t most)
{
  json_t *list = lls_render_made(render, json_array());
  const char *text = json_string_value(string);
  size_t length = json_string_length(string), at = skip_spaces(text, length, 0), end;
  for (; at < length && render->code == 0; at = skip_spaces(text, length, end)) {
    end = at;
    while (end < length && (most == 0 || !lls_char_is_space(lls_utf8_char(text + end))))
      end += lls_utf8_length(text + end);
    most -= most > 0;
    json_array_append_new(list, lls_render_string(render, text + at, end - at));
  }
  return list;
}

static json_t *split_at(struct lls_render *render, const struct lls_call *call,
                        size_t most)
{
  const char *text = json_string_value(call->subject);
  const char *separator = json_string_value(call->arguments[0]);
  size_t size = json_string_length(call->arguments[0]), at = 0;
  size_t length = json_string_length(call->subject);
  if (size == 0)
    return lls_render_fail(render, call->node, "the separator of split is not a string");
  json_t *list = lls_render_made(render, json_array());
  while (render->code == 0) {
    const char *found = most > 0 ? memmem(text + at, length - at, separator, size) : NULL;
    size_t end = found != NULL ? (size_t)(found - text) : length;
    json_array_append_new(list, lls_render_string(render, text + at, end - at));
    if (found == NULL)
      break;
    at = end + size;
    most--;
  }
  return list;
}

static json_t *split(struct lls_render *render, const struct lls_call *call)
{
  json_int_t count = json_integer_value(call->arguments[1]);
  size_t most =
      json_is_integer(call->arguments[1]) && count >= 0 ? (size_t)count : SIZE_MAX;
  if (!is_string(render, call))
    return NULL;
  if (call->arguments[0] == NULL || json_is_null(call->arguments[0]))
    return split_words(render, call->subject, most);
  return split_at(render, call, most);
}

static json_t *items(struct lls_render *render, const struct lls_call *call)
{
  return is_mapping(render, call) ? lls_pairs(render, call->node, call->subject) : NULL;
}

static json_t *keys(struct lls_render *render, const struct lls_call *call)
{
  return is_mapping(render, call) ? lls_to_list(render, call->node, call->subject) : NULL;
}

static json_t *values(struct lls_render *render, const struct lls_call *call)
{
  if (!is_mapping(render, call))
    return NULL;
  json_t *list = lls_render_made(render, json_array());
  const char *key;
  json_t *value;
  json_object_foreach(call->subject, key, value) json_array_append(list, value);
  return lls_render_check(render, call->node, list);
}

static json_t *get(struct lls_render *render, const struct lls_call *call)
{
  if (!is_mapping(render, call))
    return NULL;
  const char *key = json_string_value(call->arguments[0]);
  json_t *value = key != NULL ? json_object_get(call->subject, key) : NULL;
  if (value == NULL)
    value = call->arguments[1] != NULL ? call->arguments[1] : json_null();
  return json_incref(value);
}

static const struct lls_function methods[] = {
    {.name = "capitalize", .body = capitalize},
    {.name = "endswith", .body = endswith, .required = 1, .parameters = {"suffix"}},
    {.name = "get", .body = get, .required = 1, .parameters = {"key", "default"}},
    {.name = "items", .body = items},
    {.name = "keys", .body = keys},
    {.name = "lower", .body = lower},
    {.name = "lstrip", .body = lstrip, .parameters = {"chars"}},
    {.name = "replace",
     .body = replace,
     .required = 2,
     .parameters = {"old", "new", "count"}},
    {.name = "rstrip", .body = rstrip, .parameters = {"chars"}},
    {.name = "split", .body = split, .parameters = {"sep", "maxsplit"}},
    {.name = "startswith", .body = startswith, .required = 1, .parameters = {"prefix"}},
    {.name = "strip", .body = strip, .parameters = {"chars"}},
    {.name = "title", .body = title},
    {.name = "upper", .body = upper},
    {.name = "values", .body = values},
    {.name = NULL},
};

const struct lls_function *lls_method_find(const char *name)
{
  return lls_function_in(methods, name);
}
