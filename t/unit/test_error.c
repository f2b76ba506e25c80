/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: messages, their places, and codes without a message. */
#include "t/tap.h"

#include "core/base/error.h"

#include <errno.h>
#include <string.h>

static void test_fail_writes_the_sentence(void **state)
{
  (void)state;
  struct lls_error err = {0};
  assert_int_equal(lls_fail(&err, -EINVAL, "%s: bad", "x"), -EINVAL);
  assert_string_equal(err.text, "x: bad");
  assert_int_equal(lls_fail(NULL, -EIO, "unheard"), -EIO);
}

static void test_fail_at_puts_the_place_first(void **state)
{
  (void)state;
  struct lls_error err = {0};
  lls_fail(&err, -EINVAL, "bad value");
  assert_int_equal(lls_fail_at(&err, -EINVAL, "file.ini:%d", 3), -EINVAL);
  assert_string_equal(err.text, "file.ini:3: bad value");
}

/* A message that is too long loses its end, not its beginning. */
static void test_what_is_too_long_loses_its_end(void **state)
{
  (void)state;
  struct lls_error err = {0};
  char text[LLS_ERROR_MAX], expected[LLS_ERROR_MAX];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  snprintf(expected, sizeof expected, "a: %.*s", LLS_ERROR_MAX - 4, text);
  lls_fail(&err, -EINVAL, "%s", text);
  assert_int_equal(lls_fail_at(&err, -EINVAL, "a"), -EINVAL);
  assert_string_equal(err.text, expected);
}

static void test_text_falls_back_to_the_code(void **state)
{
  (void)state;
  struct lls_error err = {0};
  assert_string_equal(lls_error_text(&err, -ENOENT), "No such file or directory");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fail_writes_the_sentence),
      cmocka_unit_test(test_fail_at_puts_the_place_first),
      cmocka_unit_test(test_what_is_too_long_loses_its_end),
      cmocka_unit_test(test_text_falls_back_to_the_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
