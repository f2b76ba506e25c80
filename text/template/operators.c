/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic, concatenation and comparison. */
#include "text/template/state.h"

#include <math.h>

static struct lls_value refuse(struct lls_render *render, const struct lls_node *node,
                               enum lls_operation operation, struct lls_value left,
                               struct lls_value right)
{
  static const char *const names[] = {
      [LLS_OP_EQUAL] = "==",   [LLS_OP_NOT_EQUAL] = "!=",
      [LLS_OP_LESS] = "<",     [LLS_OP_LESS_EQUAL] = "<=",
      [LLS_OP_GREATER] = ">",  [LLS_OP_GREATER_EQUAL] = ">=",
      [LLS_OP_IN] = "in",      [LLS_OP_NOT_IN] = "not in",
      [LLS_OP_ADD] = "+",      [LLS_OP_SUBTRACT] = "-",
      [LLS_OP_MULTIPLY] = "*", [LLS_OP_DIVIDE] = "/",
      [LLS_OP_POWER] = "**",   [LLS_OP_DIVIDE_FLOOR] = "//",
      [LLS_OP_MODULO] = "%",   [LLS_OP_CONCATENATE] = "~",
  };
  return lls_render_fail(render, node, "\"%s\" is not possible between %s and %s",
                         names[operation], lls_type_name(left), lls_type_name(right));
}

static struct lls_value power(struct lls_render *render, const struct lls_node *node,
                              int64_t base, int64_t exponent)
{
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      return lls_render_fail(render, node, "the result is too large a number");
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
      return lls_render_fail(render, node, "the result is too large a number");
  }
  return lls_integer(result);
}

/* Divides rounding down, as Python does; the divisor is not 0, and there is no
 * overflow. */
static int64_t divide_floor(int64_t left, int64_t right)
{
  int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

static struct lls_value integers(struct lls_render *render, const struct lls_node *node,
                                 int64_t left, int64_t right)
{
  int64_t result = 0;
  bool overflow = false;
  switch (node->operation) {
  case LLS_OP_ADD:
    overflow = __builtin_add_overflow(left, right, &result);
    break;
  case LLS_OP_SUBTRACT:
    overflow = __builtin_sub_overflow(left, right, &result);
    break;
  case LLS_OP_MULTIPLY:
    overflow = __builtin_mul_overflow(left, right, &result);
    break;
  case LLS_OP_POWER:
    return power(render, node, left, right);
  default:
    overflow = left == INT64_MIN && right == -1;
    if (right == 0)
      return lls_render_fail(render, node, "division by zero");
    if (!overflow)
      result = node->operation == LLS_OP_DIVIDE_FLOOR
                   ? divide_floor(left, right)
                   : left - divide_floor(left, right) * right;
  }
  return overflow ? lls_render_fail(render, node, "the result is too large a number")
                  : lls_integer(result);
}

static struct lls_value reals(struct lls_render *render, const struct lls_node *node,
                              double left, double right)
{
  double rest;
  switch (node->operation) {
  case LLS_OP_ADD:
    return lls_real(left + right);
  case LLS_OP_SUBTRACT:
    return lls_real(left - right);
  case LLS_OP_MULTIPLY:
    return lls_real(left * right);
  case LLS_OP_POWER:
    rest = pow(left, right);
    return isfinite(rest) ? lls_real(rest)
                          : lls_render_fail(render, node, "the power is no number");
  default:
    break;
  }
  if (right == 0)
    return lls_render_fail(render, node, "division by zero");
  if (node->operation == LLS_OP_DIVIDE)
    return lls_real(left / right);
  rest = fmod(left, right); /* signs as in CPython's float_divmod, including those of
                             * zeros */
  if (rest == 0)
    rest = copysign(0, right);
  else if ((rest < 0) != (right < 0))
    rest += right;
  if (node->operation == LLS_OP_MODULO)
    return lls_real(rest);
  double whole = (left - rest) / right;
  return lls_real(whole == 0 ? copysign(0, left / right) : floor(whole));
}

/* Calculates with numbers, of which one is real or the operation has a real result. */
static struct lls_value calculate(struct lls_render *render, const struct lls_node *node,
                                  struct lls_value left, struct lls_value right)
{
  bool whole = lls_is_integral(left) && lls_is_integral(right) &&
               node->operation != LLS_OP_DIVIDE &&
               (node->operation != LLS_OP_POWER || lls_integer_of(right) >= 0);
  return whole ? integers(render, node, lls_integer_of(left), lls_integer_of(right))
               : reals(render, node, lls_real_of(left), lls_real_of(right));
}

/* Repeats a string or a list. */
static struct lls_value repeat(struct lls_render *render, struct lls_value value,
                               int64_t count)
{
  struct lls_builder text = {.render = render};
  if (count < 0)
    count = 0;
  if (lls_is_string(value)) {
    lls_builder_repeat(&text, value.text, value.length, (size_t)count);
    return lls_like(lls_builder_end(&text), value);
  }
  struct lls_list *list = lls_list_new(render, value.list->form);
  for (; count > 0 && value.list->count > 0 && render->code == 0; count--)
    for (uint32_t i = 0; i < value.list->count && render->code == 0; i++)
      lls_list_push(render, list, value.list->items[i]);
  return lls_of_list(list);
}

static struct lls_value join_lists(struct lls_render *render, const struct lls_list *left,
                                   const struct lls_list *right)
{
  struct lls_list *joined = lls_list_new(render, left->form);
  for (uint32_t i = 0; i < left->count && render->code == 0; i++)
    lls_list_push(render, joined, left->items[i]);
  for (uint32_t i = 0; i < right->count && render->code == 0; i++)
    lls_list_push(render, joined, right->items[i]);
  return lls_of_list(joined);
}

/* Concatenates strings; text joined to Markup is escaped. */
static struct lls_value join_strings(struct lls_render *render, struct lls_value left,
                                     struct lls_value right)
{
  bool safe = left.safe || right.safe;
  if (safe) {
    left = lls_escape(render, left);
    right = lls_escape(render, right);
  }
  struct lls_value joined = lls_render_join(render, left, right);
  joined.safe = safe;
  return joined;
}

static struct lls_value concatenate(struct lls_render *render,
                                    const struct lls_node *node, struct lls_value left,
                                    struct lls_value right)
{
  left = lls_to_text(render, node, left);
  right = lls_to_text(render, node, right);
  if (render->code < 0)
    return lls_undefined();
  left.safe = right.safe = false;
  return lls_render_join(render, left, right);
}

struct lls_value lls_binary(struct lls_render *render, const struct lls_node *node,
                            struct lls_value left, struct lls_value right)
{
  enum lls_operation operation = node->operation;
  if (operation == LLS_OP_CONCATENATE)
    return concatenate(render, node, left, right);
  if (lls_is_number(left) && lls_is_number(right))
    return calculate(render, node, left, right);
  if (operation == LLS_OP_ADD && lls_is_string(left) && lls_is_string(right))
    return join_strings(render, left, right);
  if (operation == LLS_OP_ADD && lls_is_sequence(left) && lls_is_sequence(right) &&
      left.list->form == right.list->form)
    return join_lists(render, left.list, right.list);
  if (operation == LLS_OP_MULTIPLY && lls_is_integral(right) &&
      (lls_is_string(left) || lls_is_sequence(left)))
    return repeat(render, left, lls_integer_of(right));
  if (operation == LLS_OP_MULTIPLY && lls_is_integral(left) &&
      (lls_is_string(right) || lls_is_sequence(right)))
    return repeat(render, right, lls_integer_of(left));
  if (operation == LLS_OP_MODULO && lls_is_string(left))
    return lls_format_percent(render, node, left, right);
  return refuse(render, node, operation, left, right);
}

bool lls_compare_values(struct lls_render *render, const struct lls_node *node,
                        enum lls_operation operation, struct lls_value left,
                        struct lls_value right)
{
  switch (operation) {
  case LLS_OP_EQUAL:
    return lls_equal(render, left, right);
  case LLS_OP_NOT_EQUAL:
    return !lls_equal(render, left, right);
  case LLS_OP_IN:
    return lls_contains(render, node, left, right);
  case LLS_OP_NOT_IN:
    return !lls_contains(render, node, left, right);
  case LLS_OP_LESS:
    return lls_order(render, node, left, right) < 0;
  case LLS_OP_LESS_EQUAL:
    return lls_order(render, node, left, right) <= 0;
  case LLS_OP_GREATER:
    return lls_order(render, node, left, right) > 0;
  default:
    return lls_order(render, node, left, right) >= 0;
  }
}
