/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: value is name. */
#include "core/template/function.h"
#include "core/template/state.h"

#define TEST(name, condition)                                                            \
  static json_t *is_##name(struct lls_render *render, const struct lls_call *call)       \
  {                                                                                      \
    const json_t *value = call->subject;                                                 \
    (void)render;                                                                        \
    return json_boolean(condition);                                                      \
  }

TEST(defined, value != NULL)
TEST(undefined, value == NULL)
TEST(none, value != NULL && json_is_null(value))
TEST(string, json_is_string(value))
TEST(mapping, json_is_object(value))
TEST(sequence, json_is_string(value) || json_is_array(value) || json_is_object(value))
TEST(iterable, value == NULL || json_is_string(value) || json_is_array(value) ||
                   json_is_object(value))
TEST(number, json_is_number(value) || json_is_boolean(value))
TEST(integer, json_is_integer(value))
TEST(float, json_is_real(value))
TEST(boolean, json_is_boolean(value))
TEST(true, json_is_true(value))
TEST(false, json_is_false(value))
TEST(odd, json_is_integer(value) && json_integer_value(value) % 2 != 0)
TEST(even, json_is_integer(value) && json_integer_value(value) % 2 == 0)
TEST(equal, lls_equal(value, call->arguments[0]))
TEST(unequal, !lls_equal(value, call->arguments[0]))
TEST(in, lls_compare(render, call->node, LLS_OP_IN, value, call->arguments[0]))

static const struct lls_function tests[] = {
    {.name = "boolean", .body = is_boolean},
    {.name = "defined", .body = is_defined},
    {.name = "eq", .body = is_equal, .required = 1, .parameters = {"other"}},
    {.name = "equalto", .body = is_equal, .required = 1, .parameters = {"other"}},
    {.name = "even", .body = is_even},
    {.name = "false", .body = is_false},
    {.name = "float", .body = is_float},
    {.name = "in", .body = is_in, .required = 1, .parameters = {"seq"}},
    {.name = "integer", .body = is_integer},
    {.name = "iterable", .body = is_iterable},
    {.name = "mapping", .body = is_mapping},
    {.name = "ne", .body = is_unequal, .required = 1, .parameters = {"other"}},
    {.name = "none", .body = is_none},
    {.name = "number", .body = is_number},
    {.name = "odd", .body = is_odd},
    {.name = "sequence", .body = is_sequence},
    {.name = "string", .body = is_string},
    {.name = "true", .body = is_true},
    {.name = "undefined", .body = is_undefined},
    {.name = NULL},
};

const struct lls_function *lls_test_find(const char *name)
{
  return lls_function_in(tests, name);
}
