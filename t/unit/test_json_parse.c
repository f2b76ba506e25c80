/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of any size are valid JSON; integers of 64 bits stay exact. */
#include "t/tap.h"

#include "core/base/json_memory.h"
#include "core/base/json_parse.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text, size_t flags)
{
  json_error_t why;
  json_t *json = lls_json_parse(text, strlen(text), flags | JSON_DECODE_ANY, &why);
  if (json == NULL)
    fail_msg("%s: %s", text, why.text);
  return json;
}

static void test_integers_of_64_bits_are_exact(void **state)
{
  static const char *const texts[] = {"0",
                                      "-0",
                                      "9007199254740993",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "1000000000000000000",
                                      "-999999999999999999"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    json_t *json = parse(texts[i], 0);
    assert_true(json_is_integer(json));
    assert_true(json_integer_value(json) == strtoll(texts[i], NULL, 10));
    json_decref(json);
  }
}

static void test_wider_numbers_are_the_nearest_real(void **state)
{
  static const struct {
    const char *text;
    double value;
  } cases[] = {
      {"9223372036854775808", 0x1p63},
      {"-9223372036854775809", -0x1p63},
      {"9999999999999999999", 1e19},
      {"18446744073709551615", 0x1p64},
      {"18446744073709551616", 0x1p64},
      {"36893488147419103233", 0x1p65},
      {"1000000000000000019884624838656", 1e30},
      {"-1000000000000000019884624838656", -1e30},
      {"123456789012345678901234567890", 123456789012345678901234567890.0},
      {"1e309", LLS_JSON_LARGEST},
      {"-1e309", -LLS_JSON_LARGEST},
      {"1E+400", LLS_JSON_LARGEST},
      {"1.5e99999999999999999999", LLS_JSON_LARGEST},
      {"-0.0001e400", -LLS_JSON_LARGEST},
      {"1797693134862315700000.0e290", LLS_JSON_LARGEST},
      /* what Jansson has always read */
      {"1.7976931348623157e308", DBL_MAX},
      {"0.00000001e315", 1e307},
      {"0e999999999", 0},
      {"0.0e999999999", 0},
      {"1e-99999", 0},
      {"1e308", 1e308},
      {"0.1", 0.1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_t *json = parse(cases[i].text, 0);
    if (!json_is_real(json) || json_real_value(json) != cases[i].value)
      fail_msg("%s is %.17g", cases[i].text, json_number_value(json));
    json_decref(json);
  }
}

static void test_a_number_of_a_million_digits(void **state)
{
  (void)state;
  char *text = malloc(1000002);
  memset(text, '7', 1000001);
  text[1000001] = '\0';
  json_t *json = parse(text, 0);
  assert_true(json_real_value(json) == LLS_JSON_LARGEST);
  json_decref(json);
  text[1] = '.';
  json = parse(text, 0);
  assert_true(fabs(json_real_value(json) - 7.7777777777777777) < 1e-15);
  json_decref(json);
  free(text);
}

static void test_strings_and_all_else_stay(void **state)
{
  (void)state;
  json_t *json =
      parse("{\"99999999999999999999\": \"1e999 \\\" 18446744073709551615\","
            " \"b\\\\\": [1e999, 7, -99999999999999999999], \"z\": \"\\u0000\"}",
            JSON_ALLOW_NUL);
  const json_t *list = json_object_get(json, "b\\");
  assert_string_equal(json_string_value(json_object_get(json, "99999999999999999999")),
                      "1e999 \" 18446744073709551615");
  assert_int_equal(json_array_size(list), 3);
  assert_int_equal(json_integer_value(json_array_get(list, 1)), 7);
  assert_true(json_real_value(json_array_get(list, 2)) == -1e20);
  assert_int_equal(json_string_length(json_object_get(json, "z")), 1);
  json_decref(json);
}

/* No invalid text becomes valid, and error positions are those of the original text. */
static void test_what_is_no_json_stays_none(void **state)
{
  static const char *const texts[] = {"[1e999",
                                      "[099999999999999999999]",
                                      "[1e999 2]",
                                      "[-e999, 1e999]",
                                      "[1.e999, 1e999]",
                                      "[1e999]]",
                                      "[1e999, \"\x80\"]",
                                      "[99999999999999999999.]",
                                      "{\"a\": 1e999, \"a\": 2}",
                                      "[1e999, \"\\u0000\"]",
                                      "",
                                      "[1e999x]",
                                      "99999999999999999999 1"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (lls_json_parse(texts[i], strlen(texts[i]),
                       JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL) != NULL)
      fail_msg("%s was taken", texts[i]);
  json_error_t why;
  const char *text = "{\"a\": 1e999, \"b\": 18446744073709551615, \"c\" 1}";
  assert_null(lls_json_parse(text, strlen(text), 0, &why));
  assert_int_equal(why.column, strchr(strstr(text, "\"c\""), '1') - text + 1);
  assert_null(lls_json_parse_string(NULL, 0, NULL));
}

/* As in Lark's %json: a value, followed by text of another language. */
static void test_a_value_before_other_text(void **state)
{
  const char *text = "{\"maximum\": 18446744073709551615, \"a\": \"}\"} 1e999 \"";
  json_error_t where;
  (void)state;
  json_t *json = lls_json_parse(text, strlen(text), JSON_DISABLE_EOF_CHECK, &where);
  assert_non_null(json);
  assert_int_equal(where.position, strstr(text, " 1e999") - text);
  json_decref(json);
}

static void test_files(void **state)
{
  json_error_t why;
  (void)state;
  FILE *file = tmpfile();
  for (unsigned i = 0; i < 20000; i++)
    fputs(i == 0 ? "[1e999" : ", 1", file);
  fputs("]", file);
  rewind(file);
  json_t *json = lls_json_parse_stream(file, 0, &why);
  assert_int_equal(json_array_size(json), 20000);
  json_decref(json);
  fclose(file);
  assert_null(lls_json_parse_file("/nowhere/at.all", 0, &why));
  assert_int_equal(why.line, -1);
}

static void test_memory_that_is_short_is_counted(void **state)
{
  (void)state;
  uint64_t before = lls_json_shortages();
  lls_json_note_shortage();
  assert_int_equal(lls_json_shortages() - before, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers_of_64_bits_are_exact),
      cmocka_unit_test(test_wider_numbers_are_the_nearest_real),
      cmocka_unit_test(test_a_number_of_a_million_digits),
      cmocka_unit_test(test_strings_and_all_else_stay),
      cmocka_unit_test(test_what_is_no_json_stays_none),
      cmocka_unit_test(test_a_value_before_other_text),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_memory_that_is_short_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
