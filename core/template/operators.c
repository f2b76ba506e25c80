/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, indexing and slices. Numbers of templates are integers; see lexer.c. */
#include "core/template/state.h"

#include "core/tokenizer/utf8.h"

#include <string.h>

static const char *symbol(enum lls_operation operation)
{
  static const char *const symbols[] = {
      [LLS_OP_EQUAL] = "==",   [LLS_OP_NOT_EQUAL] = "!=",
      [LLS_OP_LESS] = "<",     [LLS_OP_LESS_EQUAL] = "<=",
      [LLS_OP_GREATER] = ">",  [LLS_OP_GREATER_EQUAL] = ">=",
      [LLS_OP_IN] = "in",      [LLS_OP_NOT_IN] = "not in",
      [LLS_OP_ADD] = "+",      [LLS_OP_SUBTRACT] = "-",
      [LLS_OP_MULTIPLY] = "*", [LLS_OP_DIVIDE_FLOOR] = "//",
      [LLS_OP_MODULO] = "%",   [LLS_OP_CONCATENATE] = "~"};
  return symbols[operation];
}

static void *refuse(struct lls_render *render, const struct lls_node *node,
                    enum lls_operation operation, const json_t *left, const json_t *right)
{
  return lls_render_fail(render, node, "%s %s %s is not possible", lls_type_name(left),
                         symbol(operation), lls_type_name(right));
}

static json_t *join_strings(struct lls_render *render, const json_t *left,
                            const json_t *right)
{
  struct lls_bytes text = {0};
  lls_bytes_append(&text, json_string_value(left), json_string_length(left));
  lls_bytes_append(&text, json_string_value(right), json_string_length(right));
  json_t *joined = text.failed ? lls_render_made(render, NULL)
                               : lls_render_string(render, text.data, text.length);
  lls_bytes_free(&text);
  return joined;
}

static json_t *concatenate(struct lls_render *render, const struct lls_node *node,
                           json_t *left, json_t *right)
{
  json_t *a = lls_to_string(render, node, left), *b = lls_to_string(render, node, right);
  json_t *joined = render->code == 0 ? join_strings(render, a, b) : NULL;
  json_decref(a);
  json_decref(b);
  return joined;
}

static json_t *join_lists(struct lls_render *render, const struct lls_node *node,
                          json_t *left, json_t *right)
{
  if (!lls_render_charge(render, node, json_array_size(left) + json_array_size(right)))
    return NULL;
  json_t *joined = lls_render_made(render, json_copy(left));
  json_array_extend(joined, right);
  return joined;
}

/* Python rounds a quotient down and gives the remainder the divisor's sign. */
static bool divide(json_int_t a, json_int_t b, json_int_t *quotient,
                   json_int_t *remainder)
{
  if (b == 0 || (b == -1 && a < 0 && a == -a))
    return false;
  *quotient = a / b;
  *remainder = a % b;
  if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
    *quotient -= 1;
    *remainder += b;
  }
  return true;
}

static json_t *calculate(struct lls_render *render, const struct lls_node *node,
                         json_int_t a, json_int_t b)
{
  json_int_t result = 0, remainder = 0;
  bool fits = true;
  switch (node->operation) {
  case LLS_OP_ADD:
    fits = !__builtin_add_overflow(a, b, &result);
    break;
  case LLS_OP_SUBTRACT:
    fits = !__builtin_sub_overflow(a, b, &result);
    break;
  case LLS_OP_MULTIPLY:
    fits = !__builtin_mul_overflow(a, b, &result);
    break;
  case LLS_OP_DIVIDE_FLOOR:
    fits = divide(a, b, &result, &remainder);
    break;
  default:
    fits = divide(a, b, &remainder, &result);
  }
  if (!fits)
    return lls_render_fail(render, node, "division by zero, or a number too large");
  return lls_render_made(render, json_integer(result));
}

json_t *lls_binary(struct lls_render *render, const struct lls_node *node, json_t *left,
                   json_t *right)
{
  if (node->operation == LLS_OP_CONCATENATE)
    return concatenate(render, node, left, right);
  if (json_is_integer(left) && json_is_integer(right))
    return calculate(render, node, json_integer_value(left), json_integer_value(right));
  if (node->operation == LLS_OP_ADD && json_is_string(left) && json_is_string(right))
    return join_strings(render, left, right);
  if (node->operation == LLS_OP_ADD && json_is_array(left) && json_is_array(right))
    return join_lists(render, node, left, right);
  return refuse(render, node, node->operation, left, right);
}

/* Below, equal or above zero; false if the values have no order. */
static bool order(const json_t *left, const json_t *right, int *out)
{
  if (json_is_number(left) && json_is_number(right)) {
    double a = json_number_value(left), b = json_number_value(right);
    *out = (a > b) - (a < b);
    return true;
  }
  if (!json_is_string(left) || !json_is_string(right))
    return false;
  size_t a = json_string_length(left), b = json_string_length(right);
  *out = memcmp(json_string_value(left), json_string_value(right), a < b ? a : b);
  if (*out == 0)
    *out = (a > b) - (a < b);
  return true;
}

static bool contains(struct lls_render *render, const struct lls_node *node,
                     const json_t *item, const json_t *container)
{
  if (json_is_string(container) && json_is_string(item))
    return memmem(json_string_value(container), json_string_length(container),
                  json_string_value(item), json_string_length(item)) != NULL;
  if (json_is_object(container))
    return json_is_string(item) &&
           json_object_get(container, json_string_value(item)) != NULL;
  if (container != NULL && !json_is_array(container)) {
    refuse(render, node, LLS_OP_IN, item, container);
    return false;
  }
  for (size_t i = 0; i < json_array_size(container); i++)
    if (!lls_render_charge(render, node, 1) ||
        lls_equal(item, json_array_get(container, i)))
      return render->code == 0;
  return false;
}

bool lls_compare(struct lls_render *render, const struct lls_node *node,
                 enum lls_operation operation, const json_t *left, const json_t *right)
{
  int sign = 0;
  if (!lls_render_charge_value(render, node, left) ||
      !lls_render_charge_value(render, node, right))
    return false;
  if (operation == LLS_OP_EQUAL || operation == LLS_OP_NOT_EQUAL)
    return lls_equal(left, right) == (operation == LLS_OP_EQUAL);
  if (operation == LLS_OP_IN || operation == LLS_OP_NOT_IN)
    return contains(render, node, left, right) == (operation == LLS_OP_IN);
  if (!order(left, right, &sign)) {
    refuse(render, node, operation, left, right);
    return false;
  }
  switch (operation) {
  case LLS_OP_LESS:
    return sign < 0;
  case LLS_OP_LESS_EQUAL:
    return sign <= 0;
  case LLS_OP_GREATER:
    return sign > 0;
  default:
    return sign >= 0;
  }
}

static size_t size_of(const json_t *object)
{
  return json_is_string(object) ? lls_characters(object) : json_array_size(object);
}

/* The item of that number, which exists. */
static json_t *item_at(struct lls_render *render, json_t *object, size_t number)
{
  if (json_is_array(object))
    return json_incref(json_array_get(object, number));
  size_t start = lls_character_offset(object, number);
  const char *text = json_string_value(object) + start;
  return lls_render_string(render, text, lls_utf8_length(text));
}

json_t *lls_index(struct lls_render *render, const struct lls_node *node, json_t *object,
                  const json_t *index)
{
  if (object == NULL)
    return lls_render_fail(render, node, "an item of undefined is asked for");
  if (json_is_object(object) && json_is_string(index))
    return json_incref(json_object_get(object, json_string_value(index)));
  if (!json_is_integer(index) || !(json_is_array(object) || json_is_string(object)))
    return NULL;
  json_int_t size = (json_int_t)size_of(object), number = json_integer_value(index);
  lls_render_charge(render, node, LLS_WORK_OF_TEXT(json_string_length(object)));
  if (number < 0)
    number += size;
  return number >= 0 && number < size ? item_at(render, object, (size_t)number) : NULL;
}

/* A bound of a slice, brought into low..high; missing where it is not given. */
static json_int_t bound(const json_t *value, json_int_t size, json_int_t missing,
                        json_int_t low, json_int_t high)
{
  if (!json_is_integer(value))
    return missing;
  json_int_t at = json_integer_value(value);
  if (at < 0)
    at = at < -size ? low : at + size;
  return at < low ? low : at > high ? high : at;
}

static json_t *slice_string(struct lls_render *render, const json_t *string,
                            json_int_t start, json_int_t stop)
{
  size_t from = lls_character_offset(string, (size_t)start);
  size_t to = lls_character_offset(string, (size_t)stop);
  return lls_render_string(render, json_string_value(string) + from,
                           to > from ? to - from : 0);
}

static json_t *slice_list(struct lls_render *render, const struct lls_node *node,
                          json_t *list, json_int_t start, json_int_t stop,
                          json_int_t step)
{
  json_t *slice = lls_render_made(render, json_array());
  for (json_int_t i = start; step > 0 ? i < stop : i > stop; i += step)
    if (!lls_render_charge(render, node, 1) ||
        json_array_append(slice, json_array_get(list, (size_t)i)) < 0)
      break;
  return slice;
}

json_t *lls_slice(struct lls_render *render, const struct lls_node *node, json_t *object,
                  const json_t *const bounds[static 3])
{
  if (!json_is_string(object) && !json_is_array(object))
    return lls_render_fail(render, node, "cannot take a slice of %s",
                           lls_type_name(object));
  json_int_t size = (json_int_t)size_of(object);
  json_int_t step = json_is_integer(bounds[2]) ? json_integer_value(bounds[2]) : 1;
  if (step == 0 || step < -size - 1 || step > size + 1)
    step = step == 0 ? 0 : step > 0 ? size + 1 : -size - 1;
  if (step == 0)
    return lls_render_fail(render, node, "a slice with step 0 is not possible");
  json_int_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  json_int_t start = bound(bounds[0], size, step > 0 ? low : high, low, high);
  json_int_t stop = bound(bounds[1], size, step > 0 ? high : low, low, high);
  if (json_is_array(object))
    return slice_list(render, node, object, start, stop, step);
  lls_render_charge(render, node, LLS_WORK_OF_TEXT(json_string_length(object)));
  if (step == 1)
    return slice_string(render, object, start, stop);
  return lls_render_fail(render, node,
                         "a slice of a string with a step is not supported");
}
