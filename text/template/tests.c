/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: value is name. */
#include "text/template/function.h"

#define TEST(name, condition)                                                            \
  static struct lls_value is_##name(struct lls_render *render,                           \
                                    const struct lls_call *call)                         \
  {                                                                                      \
    const struct lls_value value = call->subject;                                        \
    (void)render;                                                                        \
    return lls_boolean(condition);                                                       \
  }

#define COMPARISON(name, operation)                                                      \
  static struct lls_value is_##name(struct lls_render *render,                           \
                                    const struct lls_call *call)                         \
  {                                                                                      \
    return lls_boolean(lls_compare_values(render, call->node, operation, call->subject,  \
                                          call->arguments[0]));                          \
  }

TEST(defined, value.kind != LLS_UNDEFINED)
TEST(undefined, value.kind == LLS_UNDEFINED)
TEST(none, value.kind == LLS_NONE)
TEST(string, lls_is_string(value))
TEST(mapping, value.kind == LLS_DICT)
TEST(sequence, lls_is_string(value) || lls_is_sequence(value) || value.kind == LLS_DICT)
TEST(iterable, value.kind == LLS_UNDEFINED || lls_is_string(value) ||
                   value.kind == LLS_LIST || value.kind == LLS_DICT ||
                   value.kind == LLS_GENERATOR || value.kind == LLS_LOOP)
TEST(callable, value.kind == LLS_MACRO || value.kind == LLS_FUNCTION ||
                   value.kind == LLS_METHOD || value.kind == LLS_LOOP ||
                   value.kind == LLS_UNDEFINED)
TEST(number, lls_is_number(value))
TEST(integer, value.kind == LLS_INTEGER)
TEST(float, value.kind == LLS_REAL)
TEST(boolean, value.kind == LLS_BOOLEAN)
TEST(true, value.kind == LLS_BOOLEAN && value.boolean)
TEST(false, value.kind == LLS_BOOLEAN && !value.boolean)
TEST(escaped, lls_is_string(value) && value.safe)
COMPARISON(equal, LLS_OP_EQUAL)
COMPARISON(unequal, LLS_OP_NOT_EQUAL)
COMPARISON(less, LLS_OP_LESS)
COMPARISON(less_equal, LLS_OP_LESS_EQUAL)
COMPARISON(greater, LLS_OP_GREATER)
COMPARISON(greater_equal, LLS_OP_GREATER_EQUAL)
COMPARISON(in, LLS_OP_IN)

/* Returns true if the division leaves the given remainder. */
static struct lls_value has_rest(struct lls_render *render, const struct lls_call *call,
                                 struct lls_value divisor, int64_t rest)
{
  const struct lls_node modulo = {.offset = call->node->offset,
                                  .operation = LLS_OP_MODULO};
  if (!lls_is_number(call->subject) || !lls_is_number(divisor))
    return lls_render_fail(render, call->node, "\"%s\" needs numbers, not %s",
                           call->function->name, lls_type_name(call->subject));
  struct lls_value found = lls_binary(render, &modulo, call->subject, divisor);
  return lls_boolean(lls_equal(render, found, lls_integer(rest)));
}

static struct lls_value is_odd(struct lls_render *render, const struct lls_call *call)
{
  return has_rest(render, call, lls_integer(2), 1);
}

static struct lls_value is_even(struct lls_render *render, const struct lls_call *call)
{
  return has_rest(render, call, lls_integer(2), 0);
}

static struct lls_value is_divisible(struct lls_render *render,
                                     const struct lls_call *call)
{
  return has_rest(render, call, call->arguments[0], 0);
}

/* Returns true for the same object, in cases where Python would have a single object. */
static struct lls_value is_same(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value left = call->subject, right = call->arguments[0];
  if (left.kind != right.kind)
    return lls_boolean(false);
  if (left.kind == LLS_LIST || left.kind == LLS_DICT || left.kind >= LLS_NAMESPACE)
    return lls_boolean(left.list == right.list);
  return lls_boolean(lls_equal(render, left, right));
}

static struct lls_value call_method(struct lls_render *render,
                                    const struct lls_call *call, const char *name,
                                    size_t length)
{
  struct lls_value text = lls_to_text(render, call->node, call->subject);
  const struct lls_function *method = lls_function_in(lls_string_methods, name, length);
  if (render->code < 0 || method == NULL)
    return lls_undefined();
  return lls_function_call(render, call->node, method, text, NULL, NULL);
}

static struct lls_value is_upper(struct lls_render *render, const struct lls_call *call)
{
  return call_method(render, call, "isupper", 7);
}

static struct lls_value is_lower(struct lls_render *render, const struct lls_call *call)
{
  return call_method(render, call, "islower", 7);
}

/* Returns true if there is a filter, or a test, with that name. */
static struct lls_value is_filter(struct lls_render *render, const struct lls_call *call)
{
  (void)render;
  struct lls_value name = call->subject;
  return lls_boolean(lls_is_string(name) &&
                     lls_filter_find(name.text, name.length) != NULL);
}

static struct lls_value is_test(struct lls_render *render, const struct lls_call *call)
{
  (void)render;
  struct lls_value name = call->subject;
  return lls_boolean(lls_is_string(name) &&
                     lls_test_find(name.text, name.length) != NULL);
}

#define WITH_OTHER(NAME, BODY)                                                           \
  {                                                                                      \
    .name = NAME, .body = BODY, .required = 1, .parameters = { "other" }                 \
  }

static const struct lls_function tests[] = {
    WITH_OTHER("!=", is_unequal),
    WITH_OTHER("<", is_less),
    WITH_OTHER("<=", is_less_equal),
    WITH_OTHER("==", is_equal),
    WITH_OTHER(">", is_greater),
    WITH_OTHER(">=", is_greater_equal),
    {.name = "boolean", .body = is_boolean},
    {.name = "callable", .body = is_callable},
    {.name = "defined", .body = is_defined},
    {.name = "divisibleby", .body = is_divisible, .required = 1, .parameters = {"num"}},
    WITH_OTHER("eq", is_equal),
    WITH_OTHER("equalto", is_equal),
    {.name = "escaped", .body = is_escaped},
    {.name = "even", .body = is_even},
    {.name = "false", .body = is_false},
    {.name = "filter", .body = is_filter},
    {.name = "float", .body = is_float},
    WITH_OTHER("ge", is_greater_equal),
    WITH_OTHER("greaterthan", is_greater),
    WITH_OTHER("gt", is_greater),
    {.name = "in", .body = is_in, .required = 1, .parameters = {"seq"}},
    {.name = "integer", .body = is_integer},
    {.name = "iterable", .body = is_iterable},
    WITH_OTHER("le", is_less_equal),
    WITH_OTHER("lessthan", is_less),
    {.name = "lower", .body = is_lower},
    WITH_OTHER("lt", is_less),
    {.name = "mapping", .body = is_mapping},
    WITH_OTHER("ne", is_unequal),
    {.name = "none", .body = is_none},
    {.name = "number", .body = is_number},
    {.name = "odd", .body = is_odd},
    WITH_OTHER("sameas", is_same),
    {.name = "sequence", .body = is_sequence},
    {.name = "string", .body = is_string},
    {.name = "test", .body = is_test},
    {.name = "true", .body = is_true},
    {.name = "undefined", .body = is_undefined},
    {.name = "upper", .body = is_upper},
    {.name = NULL},
};

const struct lls_function *lls_test_find(const char *name, size_t length)
{
  return lls_function_in(tests, name, length);
}
