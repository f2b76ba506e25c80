/* SPDX-License-Identifier: Apache-2.0 */
/* The members that the router reads of a body without parsing all of it: what they are in
 * every form that JSON allows, and that a malformed or cut text is read without harm. */
#include "t/tap.h"

#include <string.h>

#include "core/routing/body_members.h"

enum { MODEL, STREAM, MEMBERS };

/* Reads from a copy without a terminator, so that sanitizers see each byte too far. */
static void find(const char *text, size_t length,
                 struct lls_body_value members[MEMBERS + 1])
{
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  memset(members, 0, (MEMBERS + 1) * sizeof *members);
  members[MODEL].name = "model";
  members[STREAM].name = "stream";
  members[MEMBERS].name = "";
  lls_body_find(copy, length, members);
  free(copy);
}

static void test_forms(void **state)
{
  const struct {
    const char *text, *model;
    bool is_true, is_false;
  } cases[] = {
      {"{\"model\":\"a\"}", "a", false, false},
      {" \n{ \"stream\" : true , \"model\" : \"a\" } ", "a", true, false},
      {"{\"messages\":[{\"model\":\"b\",\"x\":\"}]\\\"{\"}],\"model\":\"a\",\"stream\":"
       "false}",
       "a", false, true},
      {"{\"model\":\"a\",\"model\":\"b\"}", "b", false, false},
      {"{\"model\":\"\\u0061\\\"\\\\\"}", "a\"\\", false, false},
      {"{\"model\":5,\"stream\":\"true\"}", "", false, false},
      {"{\"model\":null}", "", false, false},
      {"{\"xmodel\":\"b\",\"model\\\"\":\"b\"}", "", false, false},
      {"{\"a\":{\"b\":[1,2,{\"model\":\"x\"}]},\"model\":\"a\"", "a", false, false},
      {"[\"model\",\"a\"]", "", false, false},
      {"\"model\"", "", false, false},
      {"", "", false, false},
      {"{", "", false, false},
      {"{\"model\"", "", false, false},
      {"{\"model\":\"a", "", false, false},
      {"{\"model\":\"a\\", "", false, false},
      {"{]]]]", "", false, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lls_body_value members[MEMBERS + 1];
    find(cases[i].text, strlen(cases[i].text), members);
    assert_string_equal(members[MODEL].text, cases[i].model);
    assert_int_equal(members[STREAM].is_true, cases[i].is_true);
    assert_int_equal(members[STREAM].is_false, cases[i].is_false);
  }
}

/* Every beginning of a body, and every body with one byte changed. */
static void test_damage(void **state)
{
  static const char body[] =
      "{\"a\":[{\"b\":\"\\\"\"}],\"model\":\"name\",\"stream\":true}";
  static const char bytes[] = "{}[]\",:\\ x";
  struct lls_body_value members[MEMBERS + 1];
  (void)state;
  for (size_t n = 0; n < sizeof body; n++) {
    find(body, n, members);
    for (size_t b = 0; b < sizeof bytes && n < sizeof body - 1; b++) {
      char damaged[sizeof body];
      memcpy(damaged, body, sizeof body);
      damaged[n] = bytes[b];
      find(damaged, sizeof body - 1, members);
      assert_true(strlen(members[MODEL].text) < LLS_BODY_VALUE_MAX);
    }
  }
}

/* A name that is too long to be one is not read. */
static void test_long(void **state)
{
  struct lls_body_value members[MEMBERS + 1];
  size_t length = 2 * LLS_BODY_VALUE_MAX;
  char *text = malloc(length);
  (void)state;
  assert_non_null(text);
  memset(text, 'x', length);
  memcpy(text, "{\"model\":\"", 10);
  memcpy(text + length - 2, "\"}", 2);
  find(text, length, members);
  assert_true(members[MODEL].found);
  assert_string_equal(members[MODEL].text, "");
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),
                                     cmocka_unit_test(test_damage),
                                     cmocka_unit_test(test_long)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
