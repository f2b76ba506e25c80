/* SPDX-License-Identifier: Apache-2.0 */
/* Equality, order and containment of values, as in Python. */
#include "text/template/state.h"

#include <string.h>

static bool same_text(struct lls_value left, struct lls_value right)
{
  return left.length == right.length &&
         (left.text == right.text || memcmp(left.text, right.text, left.length) == 0);
}

static bool equal(struct lls_render *render, struct lls_value left,
                  struct lls_value right, unsigned depth);

static bool equal_lists(struct lls_render *render, const struct lls_list *left,
                        const struct lls_list *right, unsigned depth)
{
  bool tuples = left->form != LLS_FORM_LIST;
  if (left->count != right->count || tuples != (right->form != LLS_FORM_LIST))
    return false;
  for (uint32_t i = 0; i < left->count; i++)
    if (!equal(render, left->items[i], right->items[i], depth + 1))
      return false;
  return true;
}

static bool equal_dicts(struct lls_render *render, const struct lls_dict *left,
                        const struct lls_dict *right, unsigned depth)
{
  const struct lls_entry *entry;
  uint32_t at = 0;
  if (left->count != right->count)
    return false;
  while ((entry = lls_dict_next(left, &at)) != NULL) {
    const struct lls_value *other = lls_dict_find(render, right, entry->key);
    if (other == NULL || !equal(render, entry->value, *other, depth + 1))
      return false;
  }
  return true;
}

static bool equal(struct lls_render *render, struct lls_value left,
                  struct lls_value right, unsigned depth)
{
  if (!lls_render_charge(render, NULL, 1))
    return false;
  if (depth > LLS_VALUE_DEPTH) {
    lls_render_fail(render, NULL, "values that are nested too deeply are compared");
    return false;
  }
  if (lls_is_integral(left) && lls_is_integral(right))
    return lls_integer_of(left) == lls_integer_of(right);
  if (lls_is_number(left) && lls_is_number(right))
    return lls_real_of(left) == lls_real_of(right);
  if (left.kind != right.kind)
    return false;
  switch (left.kind) {
  case LLS_UNDEFINED:
  case LLS_NONE:
    return true;
  case LLS_STRING:
    return lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(left.length)) &&
           same_text(left, right);
  case LLS_LIST:
    return left.list == right.list || equal_lists(render, left.list, right.list, depth);
  case LLS_DICT:
    return left.dict == right.dict || equal_dicts(render, left.dict, right.dict, depth);
  default:
    return left.text == right.text; /* the same object */
  }
}

bool lls_equal(struct lls_render *render, struct lls_value left, struct lls_value right)
{
  return equal(render, left, right, 0);
}

static int order(struct lls_render *render, const struct lls_node *node,
                 struct lls_value left, struct lls_value right, unsigned depth);

static int order_texts(struct lls_value left, struct lls_value right)
{
  size_t length = left.length < right.length ? left.length : right.length;
  int sign = memcmp(left.text, right.text, length);
  return sign != 0 ? sign : (left.length > right.length) - (left.length < right.length);
}

static int order_lists(struct lls_render *render, const struct lls_node *node,
                       const struct lls_list *left, const struct lls_list *right,
                       unsigned depth)
{
  for (uint32_t i = 0; i < left->count && i < right->count && render->code == 0; i++)
    if (!equal(render, left->items[i], right->items[i], depth + 1))
      return order(render, node, left->items[i], right->items[i], depth + 1);
  return (left->count > right->count) - (left->count < right->count);
}

static int order(struct lls_render *render, const struct lls_node *node,
                 struct lls_value left, struct lls_value right, unsigned depth)
{
  if (!lls_render_charge(render, node, 1))
    return 0;
  if (lls_is_integral(left) && lls_is_integral(right)) {
    int64_t a = lls_integer_of(left), b = lls_integer_of(right);
    return (a > b) - (a < b);
  }
  if (lls_is_number(left) && lls_is_number(right)) {
    double a = lls_real_of(left), b = lls_real_of(right);
    return (a > b) - (a < b);
  }
  if (left.kind == LLS_STRING && right.kind == LLS_STRING)
    return lls_render_charge(render, node, LLS_WORK_OF_TEXT(left.length))
               ? order_texts(left, right)
               : 0;
  if (lls_is_sequence(left) && lls_is_sequence(right) && depth < LLS_VALUE_DEPTH &&
      (left.list->form == LLS_FORM_LIST) == (right.list->form == LLS_FORM_LIST))
    return order_lists(render, node, left.list, right.list, depth);
  lls_render_fail(render, node, "%s and %s have no order", lls_type_name(left),
                  lls_type_name(right));
  return 0;
}

int lls_order(struct lls_render *render, const struct lls_node *node,
              struct lls_value left, struct lls_value right)
{
  return order(render, node, left, right, 0);
}

bool lls_contains(struct lls_render *render, const struct lls_node *node,
                  struct lls_value item, struct lls_value container)
{
  if (lls_is_string(container) && lls_is_string(item))
    return lls_render_charge(render, node, LLS_WORK_OF_TEXT(container.length)) &&
           lls_find(container, 0, item) != SIZE_MAX;
  if (container.kind == LLS_DICT)
    return lls_dict_find(render, container.dict, item) != NULL;
  if (container.kind == LLS_UNDEFINED)
    return false;
  if (container.kind != LLS_LIST && container.kind != LLS_GENERATOR) {
    lls_render_fail(render, node, "%s cannot be in %s", lls_type_name(item),
                    lls_type_name(container));
    return false;
  }
  const struct lls_list *list = lls_items_of(render, node, container);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++)
    if (lls_equal(render, item, list->items[i]))
      return true;
  return false;
}
