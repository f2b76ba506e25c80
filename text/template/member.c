/* SPDX-License-Identifier: Apache-2.0 */
/* Members, items and slices of values. */
#include "text/template/function.h"
#include "text/template/state.h"
#include "text/base/utf8.h"

/* Returns undefined, with the missing name for messages. */
static struct lls_value missing(struct lls_value name)
{
  struct lls_value value = lls_undefined();
  if (lls_is_string(name)) {
    value.text = name.text;
    value.length = name.length;
  }
  return value;
}

static struct lls_value refuse(struct lls_render *render, const struct lls_node *node,
                               struct lls_value object, struct lls_value name)
{
  if (object.text == NULL || object.length == 0)
    return lls_render_fail(render, node, "undefined has no members");
  return lls_render_fail(render, node, "\"%.*s\" is undefined, so it has no \"%.*s\"",
                         (int)object.length, object.text,
                         lls_is_string(name) ? (int)name.length : 4,
                         lls_is_string(name) ? name.text : "item");
}

/* Returns a member of a for's variable "loop". */
static struct lls_value member_of_loop(struct lls_for_loop *loop, struct lls_value name)
{
  int64_t index = loop->index, size = loop->list->count;
  const struct {
    const char *name;
    struct lls_value value;
  } members[] = {
      {"index", lls_integer(index + 1)},
      {"index0", lls_integer(index)},
      {"revindex", lls_integer(size - index)},
      {"revindex0", lls_integer(size - index - 1)},
      {"length", lls_integer(size)},
      {"first", lls_boolean(index == 0)},
      {"last", lls_boolean(index + 1 == size)},
      {"depth", lls_integer((int64_t)loop->depth + 1)},
      {"depth0", lls_integer(loop->depth)},
  };
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if (lls_text_is(name, members[i].name))
      return members[i].value;
  if (lls_text_is(name, "previtem") && index > 0)
    return loop->list->items[index - 1];
  if (lls_text_is(name, "nextitem") && index + 1 < size)
    return loop->list->items[index + 1];
  return lls_undefined();
}

/* Returns a method, or a value that is an attribute in Python; undefined if there is
 * neither. */
static struct lls_value attribute(struct lls_render *render, struct lls_value object,
                                  struct lls_value name)
{
  const struct lls_function *method = lls_method_find(object, name.text, name.length);
  if (method != NULL) {
    struct lls_bound *bound = lls_render_alloc(render, sizeof *bound);
    if (bound == NULL)
      return lls_undefined();
    *bound = (struct lls_bound){method, object};
    return (struct lls_value){.kind = LLS_METHOD, .bound = bound};
  }
  if (object.kind == LLS_LOOP)
    return member_of_loop(object.loop, name);
  if (object.kind == LLS_MACRO && lls_text_is(name, "name"))
    return object.macro->node->value;
  if (object.kind == LLS_LIST && object.list->form == LLS_FORM_GROUP &&
      object.list->count == 2) {
    if (lls_text_is(name, "grouper"))
      return object.list->items[0];
    if (lls_text_is(name, "list"))
      return object.list->items[1];
  }
  return lls_undefined();
}

static struct lls_value item_of_dict(struct lls_render *render, struct lls_value object,
                                     struct lls_value key)
{
  const struct lls_value *found = NULL;
  if (object.kind == LLS_DICT || object.kind == LLS_NAMESPACE)
    found = lls_dict_find(render, object.dict, key);
  return found != NULL ? *found : missing(key);
}

struct lls_value lls_member(struct lls_render *render, const struct lls_node *node,
                            struct lls_value object, struct lls_value name)
{
  if (render->code < 0 || object.kind == LLS_UNDEFINED)
    return refuse(render, node, object, name);
  struct lls_value value = attribute(render, object, name);
  return value.kind != LLS_UNDEFINED ? value : item_of_dict(render, object, name);
}

static struct lls_value item_at(struct lls_render *render, struct lls_value object,
                                int64_t number)
{
  int64_t size = lls_is_string(object) ? (int64_t)lls_characters(render, object)
                                       : object.list->count;
  if (number < 0)
    number += size;
  if (number < 0 || number >= size || render->code < 0)
    return lls_undefined();
  if (!lls_is_string(object))
    return object.list->items[number];
  const char *text = object.text + lls_character_offset(object, (size_t)number);
  return lls_like(lls_view(text, lls_utf8_length(text)), object);
}

struct lls_value lls_index(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object, struct lls_value index)
{
  if (render->code < 0 || object.kind == LLS_UNDEFINED)
    return refuse(render, node, object, index);
  if (lls_is_integral(index) && (lls_is_string(object) || lls_is_sequence(object)))
    return item_at(render, object, lls_integer_of(index));
  if (object.kind == LLS_DICT && lls_dict_find(render, object.dict, index) != NULL)
    return item_of_dict(render, object, index);
  if (!lls_is_string(index))
    return missing(index);
  struct lls_value value = attribute(render, object, index);
  return value.kind != LLS_UNDEFINED ? value : item_of_dict(render, object, index);
}

/* Clamps a bound of a slice to low..high; returns `otherwise` if the bound is none. */
static int64_t bound_of(struct lls_value value, int64_t size, int64_t otherwise,
                        int64_t low, int64_t high)
{
  if (!lls_is_integral(value))
    return otherwise;
  int64_t at = lls_integer_of(value);
  if (at < 0)
    at = at < -size ? low : at + size;
  return at < low ? low : at > high ? high : at;
}

static struct lls_value slice_list(struct lls_render *render, const struct lls_list *list,
                                   int64_t start, int64_t stop, int64_t step)
{
  struct lls_list *slice = lls_list_new(render, list->form);
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
    if (!lls_list_push(render, slice, list->items[i]))
      break;
  return lls_of_list(slice);
}

static struct lls_value slice_string(struct lls_render *render, struct lls_value string,
                                     int64_t start, int64_t stop, int64_t step)
{
  struct lls_builder slice = {.render = render};
  if (step == 1) {
    size_t from = lls_character_offset(string, (size_t)start);
    size_t to = stop > start ? from + lls_character_offset(lls_view(string.text + from,
                                                                    string.length - from),
                                                           (size_t)(stop - start))
                             : from;
    return lls_view(string.text + from, to - from);
  }
  const struct lls_list *characters = lls_items_of(render, NULL, string);
  for (int64_t i = start; characters != NULL && (step > 0 ? i < stop : i > stop);
       i += step)
    lls_builder_put_value(&slice, characters->items[i]);
  return lls_builder_end(&slice);
}

struct lls_value lls_slice(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object,
                           const struct lls_value bounds[static 3])
{
  if (render->code < 0 || object.kind == LLS_UNDEFINED)
    return lls_render_fail(render, node, "cannot take a slice of %s",
                           lls_type_name(object));
  if (!lls_is_string(object) && !lls_is_sequence(object))
    return lls_undefined(); /* like Jinja's Environment.getitem after any error */
  for (int i = 0; i < 3; i++)
    if (!lls_is_integral(bounds[i]) && bounds[i].kind != LLS_NONE)
      return lls_render_fail(render, node, "a slice needs integers, not %s",
                             lls_type_name(bounds[i]));
  int64_t size = lls_is_string(object) ? (int64_t)lls_characters(render, object)
                                       : object.list->count;
  int64_t step = lls_is_integral(bounds[2]) ? lls_integer_of(bounds[2]) : 1;
  if (step == 0)
    return lls_render_fail(render, node, "a slice with step 0 is not possible");
  step = step > size ? size + 1 : step < -size ? -size - 1 : step;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  int64_t start = bound_of(bounds[0], size, step > 0 ? low : high, low, high);
  int64_t stop = bound_of(bounds[1], size, step > 0 ? high : low, low, high);
  if (!lls_is_string(object))
    return slice_list(render, object.list, start, stop, step);
  return lls_like(slice_string(render, object, start, stop, step), object);
}
