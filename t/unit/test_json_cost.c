/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate of the memory that a JSON text takes once it is parsed, by which bodies
 * are refused before they are. */
#include "t/tap.h"

#include "core/base/json_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t allocated;

static void *count_malloc(size_t size)
{
  allocated += (size + 8 + 15) / 16 * 16;
  return malloc(size);
}

/* The estimated cost must be of the same order as the allocated memory. */
static void expect_cost(const char *text)
{
  struct lls_json_cost cost = {0};
  lls_json_count(&cost, text, strlen(text));
  allocated = 0;
  json_set_alloc_funcs(count_malloc, free);
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  json_set_alloc_funcs(malloc, free);
  json_decref(json);
  assert_non_null(json);
  assert_in_range(lls_json_cost_bytes(&cost), allocated * 3 / 4, allocated * 2 + 1000);
}

static void test_the_cost_of_json_is_near_the_truth(void **state)
{
  static const char *const values[] = {"[]",
                                       "{}",
                                       "1",
                                       "\"\"",
                                       "{\"a\":1}",
                                       "[[[1]]]",
                                       "\"a text, with: [signs] and \\\" {quotes}\""};
  char text[65536];
  (void)state;
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    size_t length = (size_t)snprintf(text, sizeof text, "[%s", values[i]);
    while (length + 60 < sizeof text / 2)
      length += (size_t)snprintf(text + length, sizeof text - length, ",%s", values[i]);
    strcpy(text + length, "]");
    expect_cost(text);
  }
}

static void test_json_that_costs_too_much_is_not_read(void **state)
{
  size_t length = 3 << 20;
  char *text = malloc(length + 1);
  json_error_t why;
  (void)state;
  for (size_t i = 0; i < length; i += 3)
    memcpy(text + i, "[],", 3);
  text[0] = '[';
  text[1] = ' ';
  text[2] = ' ';
  text[length - 1] = ']';
  assert_null(lls_json_load(text, length, 0, &why));
  assert_int_equal(json_error_code(&why), json_error_out_of_memory);
  assert_non_null(strstr(why.text, "so many small values"));
  json_t *few = lls_json_load(text, 0, JSON_DECODE_ANY, NULL);
  assert_null(few);
  memset(text + 1, ' ', length - 2);
  json_t *blank = lls_json_load(text, length, 0, &why);
  assert_non_null(blank);
  json_decref(blank);
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_cost_of_json_is_near_the_truth),
      cmocka_unit_test(test_json_that_costs_too_much_is_not_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
