/* SPDX-License-Identifier: Apache-2.0 */
/* Against the examples of FIPS 180-4 and of NIST's validation (SHA256LongMsg's idea). */
#include "t/tap.h"

#include "core/base/sha256.h"

#include <string.h>

/* In pieces of `step` bytes. */
static void check(const char *text, size_t n, size_t step, const char *wanted)
{
  struct lls_sha256 h;
  char hex[LLS_SHA256_HEX];
  lls_sha256_begin(&h);
  for (size_t at = 0; at < n; at += step)
    lls_sha256_add(&h, text + at, n - at < step ? n - at : step);
  lls_sha256_end(&h, hex);
  assert_string_equal(hex, wanted);
}

static void test_examples(void **state)
{
  static const char two_blocks[] =
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  (void)state;
  check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  check("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (size_t step = 1; step <= strlen(two_blocks); step++)
    check(two_blocks, strlen(two_blocks), step,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_a_million(void **state)
{
  static char many[1000000];
  (void)state;
  memset(many, 'a', sizeof many);
  check(many, sizeof many, 4097,
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_a_million),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
