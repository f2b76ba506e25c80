/* SPDX-License-Identifier: Apache-2.0 */
/* The characters that BERT's tokenisers treat as marks, controls or punctuation: by
 * Unicode 8.0, whatever version utf8proc and PCRE2 have; and normalisation forms,
 * compared with the reference. */
#include "t/tap.h"

#include "text/tokenizer/tokenizer.h"
#include "text/base/unicode.h"

#include <string.h>

static void expect(void (*function)(const char *, size_t, struct lls_bytes *),
                   const char *text, const char *want)
{
  struct lls_bytes out = {0};
  function(text, strlen(text), &out);
  lls_bytes_append(&out, "", 1);
  assert_string_equal(out.data, want);
  lls_bytes_free(&out);
}

static void test_marks(void **state)
{
  (void)state;
  expect(lls_unicode_strip_nonspacing, "e\u0301\u08e3x", "ex");
  expect(lls_unicode_strip_nonspacing, "a\u08d4", "a\u08d4");       /* of 9.0 */
  expect(lls_unicode_strip_nonspacing, "\U0001e4ec", "\U0001e4ec"); /* of 15.0 */
  expect(lls_unicode_strip_nonspacing, "\u1714\u1734\u0903",
         "\u0903"); /* spacing since */
}

static void test_controls(void **state)
{
  (void)state;
  expect(lls_unicode_clean,
         "a\u200b\u0600\ue000\x01"
         "b\tc",
         "ab c");
  expect(lls_unicode_clean, "\u0890\u08e2", "\u0890\u08e2");         /* of 14.0 and 9.0 */
  expect(lls_unicode_clean, "\u0378\U0003fffd", "\u0378\U0003fffd"); /* unassigned */
}

/* Counts the tokens of the text without the surrounding special ones. */
static size_t count(const struct lls_tokenizer *tokenizer, const char *text)
{
  int32_t *ids = NULL;
  size_t n = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, text, strlen(text), false, &ids, &n, NULL), 0);
  free(ids);
  return n;
}

static void test_punctuation(void **state)
{
  (void)state;
  struct lls_tokenizer *tokenizer;
  assert_int_equal(
      lls_tokenizer_load(source_path("t/data/tokenizer/bert"), &tokenizer, NULL), 0);
  assert_int_equal(count(tokenizer, "a\u061bb"), 3);
  assert_int_equal(count(tokenizer, "a\u166db"), 3); /* a symbol since 12.0 */
  assert_int_equal(count(tokenizer, "a\u061db"), 1); /* of 14.0: no word that is known */
  assert_int_equal(count(tokenizer, "a\u2e60b"), 1); /* of 18.0 */
  lls_tokenizer_free(tokenizer);
}

static void normalised(enum lls_unicode_form form, const char *text, const char *want)
{
  struct lls_bytes out = {0};
  assert_int_equal(lls_unicode_normalize(form, text, strlen(text), &out), 0);
  lls_bytes_append(&out, "", 1);
  assert_string_equal(out.data, want);
  lls_bytes_free(&out);
}

/* As tokenizers 0.21's NFD() and NFKC() say. */
static void test_forms(void **state)
{
  (void)state;
  normalised(LLS_NFKC, "\ufb01\u33ff", "figal");
  normalised(LLS_NFKC, "\u32ff\U00010787\U0001fbf3", "\u32ff\U00010787\U0001fbf3");
  normalised(LLS_NFD, "a\u0345\u0301\u1ab0", "a\u0301\u1ab0\u0345");
  normalised(LLS_NFD, "a\u0345\u1abf", "a\u0345\u1abf"); /* a mark of 13.0 */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_controls),
      cmocka_unit_test(test_punctuation),
      cmocka_unit_test(test_forms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
