/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema as a grammar: single values, which are constants, strings and numbers. */
#include "t/schema_case.h"

static void numbers_have_an_end(void **state)
{
  CHECK({"{\"type\": \"number\"}",
         {"18446744073709551616", "-0.12345678901234567890", "1e308", "1.5E-300"},
         {"123456789012345678901", "0.123456789012345678901", "1e1000"}},
        {"{\"type\": \"integer\"}", {"18446744073709551616"}, {"123456789012345678901"}},
        {"{}", {"18446744073709551616"}, {"[123456789012345678901]"}},
        {"{\"type\": \"integer\", \"minimum\": 3}",
         {"18446744073709551616"},
         {"123456789012345678901", "2"}},
        {"{\"type\": \"number\", \"minimum\": 0.5, \"maximum\": 2}",
         {"0.5", "1.12345678901234567890", "2.00"},
         {"1.1234567890123456789012345", "2.000000000000000000000"}},
        {"{\"type\": \"integer\", \"minimum\": 1e25}",
         {"10000000000000000905969664", "10000000000000000905969665"},
         {"100000000000000009059696640000000"}});
}

static void types_and_constants(void **state)
{
  CHECK({"{}",
         {"1", "\"a\"", "{\"a\":[null, 1e5]}", "[]", "-0.5"},
         {"", "01", "{a:1}", "1."}},
        {"true", {"null", "[1,2]"}, {"nul"}},
        {"{\"type\": \"integer\"}", {"0", "-12", "120"}, {"1.0", "\"1\"", "-", "00"}},
        {"{\"type\": [\"string\", \"null\"]}", {"\"\"", "null"}, {"1"}},
        {"{\"enum\": [1, \"a\", null, {\"b\": [1.5]}]}",
         {"1", "\"a\"", "null", "{\"b\": [1.5]}", "{\"b\":[1.5]}"},
         {"2", "\"b\"", "{}"}},
        {"{\"type\": \"string\", \"enum\": [\"a\", 1]}", {"\"a\""}, {"1"}},
        {"{\"enum\": [\"ab\", \"abc\", \"b\"], \"maxLength\": 2, \"pattern\": \"^a\"}",
         {"\"ab\""},
         {"\"abc\"", "\"b\""}},
        {"{\"enum\": [2.0, -0.0, 1.5, 1e300]}",
         {"2", "2.0", "0", "1.5", "1e300"},
         {"2.", "1", "3"}},
        {"{\"const\": \"\\\"\\n\"}", {"\"\\\"\\n\""}, {"\"\"\""}}, );
}

static void strings(void **state)
{
  CHECK(
      {"{\"type\": \"string\"}",
       {"\"\\u00e9\\ud83d\\ude00é\\/\"", "\"\""},
       {"\"\\ud83d\"", "\"\n\"", "\"\\x\"", "\""}},
      {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
       {"\"éé\"", "\"\\n\\u0041b\"", "\"\\ud83d\\ude00a\""},
       {"\"a\"", "\"abcd\"", "\"\\n\""}},
      {"{\"type\": \"string\", \"minLength\": 2.0, \"maxLength\": 1e300}",
       {"\"abcd\""},
       {"\"a\""}},
      {"{\"type\": \"string\", \"pattern\": \"b+\"}",
       {"\"abba\"", "\"b\""},
       {"\"aa\"", "\"\""}},
      {"{\"type\": \"string\", \"pattern\": \"^a.c$|^x\"}",
       {"\"abc\"", "\"x\"", "\"xyz\"", "\"a\\\"c\""},
       {"\"abcd\"", "\"a\\nc\"", "\"yx\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[^a]$\"}",
       {"\"\\\\\"", "\"\\u0001\"", "\"\\n\"", "\"é\""},
       {"\"a\"", "\"\"", "\"bb\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[a-z]+$\", \"minLength\": 2, "
       "\"maxLength\": 3}",
       {"\"ab\"", "\"abc\""},
       {"\"a\"", "\"abcd\"", "\"AB\""}},
      {"{\"type\": \"string\", \"pattern\": \"^(a|bc)+$\", \"minLength\": 3, "
       "\"maxLength\": 4}",
       {"\"aaa\"", "\"abc\"", "\"bcbc\"", "\"abca\""},
       {"\"aa\"", "\"bc\"", "\"bcbca\"", "\"abb\"", "\"aaaaa\""}},
      {"{\"type\": \"string\", \"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b$\"}, "
       "{\"pattern\": \"^[^x]*$\"}]}",
       {"\"ab\"", "\"a\\\"\u00e9b\"", "\"bab\""},
       {"\"a\"", "\"b\"", "\"axb\"", "\"ba\""}},
      {"{\"type\": \"string\", \"format\": \"date\", \"pattern\": \"^2\", \"minLength\": "
       "1}",
       {"\"2024-02-29\""},
       {"\"1999-12-31\"", "\"2\"", "\"2023-02-30\""}},
      {"{\"type\": \"string\", \"pattern\": \"^v\\\\d\", \"maxLength\": 4}",
       {"\"v1\"", "\"v1xy\""},
       {"\"v1xyz\"", "\"v\""}},
      {"{\"type\": \"string\", \"format\": \"date\"}",
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"24-01-01\""}},
      {"{\"type\": \"string\", \"format\": \"date-time\"}",
       {"\"2024-02-29T23:59:59.5Z\"", "\"2024-02-29T00:00:00+01:00\""},
       {"\"2024-02-29 00:00:00Z\"", "\"2024-02-29T24:00:00Z\""}},
      {"{\"type\": \"string\", \"format\": \"ipv6\"}",
       {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1:2\"",
        "\"::ffff:1.2.3.4\""},
       {"\"1:2:3\"", "\"1::2::3\"", "\"::g\"", "\"1:2:3:4:5:6:7:8:9\""}},
      {"{\"type\": \"string\", \"format\": \"uuid\", \"minLength\": 1}",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567e89b12d3a456426614174000\""}},
      {"{\"type\": \"string\", \"format\": \"email\"}",
       {"\"a.b@c.de\""},
       {"\"a@\"", "\"a\""}},
      {"{\"type\": \"string\", \"format\": \"uri\"}",
       {"\"http://a.b/c?d#e\"", "\"mailto:a@b\""},
       {"\"//a\"", "\"a b:c\""}}, );
}

/* After a backslash each code point that a text may contain there can be written as an
 * escape, and no other. */
static void escapes_by_digits(void **state)
{
  CHECK(
      {"{\"type\": \"string\", \"pattern\": \"^.*$\"}",
       {"\"\\u00e9\\u00C9\"", "\"\\ud83d\\uDE00\"", "\"\\/\\u0041\\\"\"", "\"\\u0000\""},
       {"\"\\ud83d\"", "\"\\ude00\"", "\"\\u000a\"", "\"\\u2028\"", "\"\\u00e\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[^<>]+$\"}",
       {"\"\\u003d\"", "\"\\u003B\\u003f\"", "\"\\uFFFF\\ue000\\ud7ff\""},
       {"\"\\u003c\"", "\"\\u003E\"", "\"\\u003cb\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[\\\"\\ud83d\\ude00-\\ud83d\\ude02]$\"}",
       {"\"\\ud83d\\ude00\"", "\"\\uD83D\\uDE02\"", "\"\\u0022\"", "\"😁\""},
       {"\"\\ud83d\\ude03\"", "\"\\ud83c\\ude01\"", "\"\\u0023\""}},
      {"{\"type\": \"string\", \"not\": {\"const\": \"é\"}}",
       {"\"\\u00e8\"", "\"\\u00e9x\"", "\"éé\"", "\"\\u00e9\\u00e9\""},
       {"\"é\"", "\"\\u00e9\"", "\"\\u00E9\""}},
      {"{\"type\": \"string\", \"not\": {\"pattern\": \"^a\"}}",
       {"\"\\u0062a\"", "\"\\u00e9\"", "\"\""},
       {"\"\\u0061\"", "\"a\"", "\"\\u0061b\""}},
      {"{\"type\": \"string\", \"allOf\": [{\"pattern\": \"b$\"}, {\"pattern\": "
       "\"^[^x]*$\"}]}",
       {"\"\\u00e9b\"", "\"\\u0062\"", "\"\\u0061\\u0062\""},
       {"\"\\u0078b\"", "\"\\u0061\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[^\\\"]{2,3}$\", \"maxLength\": 3}",
       {"\"\\u00e9\\ud83d\\ude00\"", "\"a\\u0062c\""},
       {"\"\\u00e9\"", "\"\\u0022a\"", "\"\\u0061bcd\""}},
      {"{\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}",
       {"\"a\""},
       {"\"\\u0061\"", "\"\\\\\""}}, );
}

/* Length limits that one repetition cannot express: of patterns of several parts, and
 * of formats, which then lose some of their texts. */
static void lengths_of_patterns(void **state)
{
  CHECK({"{\"type\": \"string\", \"pattern\": \"^https?://.+$\", \"maxLength\": 1024}",
         {"\"http://a\"", "\"https://ab.c\""},
         {"\"http://\"", "\"ftp://a\""}},
        {"{\"type\": \"string\", \"pattern\": \"^(ab|c)x{0,3}(de?f)*$\", \"minLength\": "
         "3, \"maxLength\": 5}",
         {"\"abx\"", "\"cdf\"", "\"cxxdf\"", "\"abdef\"", "\"abxdf\""},
         {"\"ab\"", "\"cdeffd\"", "\"abxxdf\"", "\"abdfdf\""}},
        {"{\"type\": \"string\", \"pattern\": \"([a-z]+)?\", \"maxLength\": 4096}",
         {"\"\"", "\"1\""},
         {"1"}},
        {"{\"format\": \"email\", \"minLength\": 3, \"maxLength\": 254}",
         {"\"a@b\"", "\"first.last@sub.example.com\"", "1"},
         {"\"a\"", "\"a@-b\""}},
        {"{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 60}",
         {"\"first.last@sub.example.com\""},
         {"\"first.last@sub.example.com.a-second-name.and-a-third-name.of-it\""}},
        {"{\"type\": \"string\", \"format\": \"uri\", \"minLength\": 1, \"maxLength\": "
         "2083}",
         {"\"https://example.com:80/a/b%20c?d=e&f#g\"", "\"http://a\""},
         {"\"\"", "\"example.com\"", "\"http://a/%2\"", "\"http://a b\""}},
        {"{\"type\": \"string\", \"format\": \"uri\", \"maxLength\": 14}",
         {"\"https://a.b/cd\""},
         {"\"https://a.b/cde\"", "\"https//a\""}}, );
}

/* Such limits are respected, or refused by name. */
static void numbers_beyond_64_bits(void **state)
{
  static const char *const refused[][2] = {
      {"{\"const\": 18446744073709551615}", "'const'"},
      {"{\"const\": 99999999999999999999}", "'const'"},
      {"{\"enum\": [1, {\"a\": [-12345678901234567890]}]}", "'enum'"},
      {"{\"enum\": [1e999]}", "'enum'"},
      {"{\"type\": \"integer\", \"multipleOf\": 18446744073709551615}", "'multipleOf'"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    struct lls_grammar_tree *tree;
    struct lls_error err = {0};
    assert_int_equal(compile(refused[i][0], true, &tree, &err), LLS_GRAMMAR_NONE);
    if (strstr(err.text, refused[i][1]) == NULL)
      fail_msg("%s: %s", refused[i][0], err.text);
    lls_grammar_tree_destroy(tree);
  }
  CHECK(
      {"{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 18446744073709551615}",
       {"0", "9223372036854775808", "18446744073709549568"},
       {"18446744073709551616", "18446744073709551999", "-1"}},
      {"{\"type\": \"integer\", \"minimum\": 18446744073709551615}",
       {"18446744073709555712", "20000000000000000000"},
       {"18446744073709551614", "1"}},
      {"{\"type\": \"integer\", \"minimum\": -18446744073709551615, \"maximum\": -1}",
       {"-1", "-18446744073709549568"},
       {"-18446744073709551616", "0"}},
      {"{\"type\": \"number\", \"maximum\": 1e999}", {"5", "-5.5"}, {"\"5\""}},
      {"{\"anyOf\": [{\"type\": \"number\", \"minimum\": 1e999}, {\"type\": \"null\"}]}",
       {"null"},
       {"5", "1"}},
      {"{\"type\": \"string\", \"maxLength\": 18446744073709551615}",
       {"\"abc\""},
       {"1"}}, );
}

static void numbers(void **state)
{
  CHECK(
      {"{\"type\": \"integer\", \"minimum\": -3, \"maximum\": 120}",
       {"-3", "0", "7", "99", "120", "-1"},
       {"-4", "121", "-0", "999", "1.5"}},
      {"{\"type\": \"integer\", \"exclusiveMinimum\": 9, \"exclusiveMaximum\": 1000}",
       {"10", "999", "100"},
       {"9", "1000", "0", "-10"}},
      {"{\"type\": \"integer\", \"minimum\": 18}",
       {"18", "20", "100"},
       {"17", "9", "-18"}},
      {"{\"type\": \"integer\", \"maximum\": -18}", {"-18", "-100"}, {"-17", "18", "0"}},
      {"{\"type\": \"number\", \"minimum\": 0.25, \"maximum\": 1.5}",
       {"0.25", "0.3", "1", "1.5", "1.50", "1.49999", "0.250"},
       {"0.2", "0.249", "1.51", "2", "-1", "1.500000001"}},
      {"{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1}",
       {"0.001", "1", "1.0", "0.5"},
       {"0", "0.0", "1.01", "-0.5"}},
      {"{\"type\": \"number\", \"minimum\": -1.5, \"exclusiveMaximum\": 10}",
       {"-1.5", "-0.1", "0", "9.99"},
       {"-1.6", "10", "10.0", "-2"}},
      {"{\"type\": \"number\", \"minimum\": 5, \"exclusiveMinimum\": true}",
       {"5.1", "6"},
       {"5", "5.0"}},
      {"{\"type\": \"integer\", \"multipleOf\": 5}",
       {"0", "5", "-10", "125"},
       {"3", "12"}},
      {"{\"type\": \"number\", \"minimum\": 0}",
       {"1e-07", "6.1e-05", "1e+16", "1.5e21"},
       {"-1e-07", "1e3", "1e-3", "1e999"}},
      {"{\"type\": \"number\", \"minimum\": -1, \"exclusiveMaximum\": 0}",
       {"-1e-07", "-0.5"},
       {"1e-07", "-1e16", "1e16"}},
      {"{\"type\": \"number\", \"maximum\": 3}", {"-1e16", "1E-5"}, {"1e16"}},
      {"{\"type\": \"number\", \"minimum\": 5e15}",
       {"5000000000000000"},
       {"1e16", "1e-5"}},
      {"{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 1, \"maximum\": 30}",
       {"7", "28"},
       {"0", "8", "35"}},
      {"{\"type\": \"number\", \"multipleOf\": 0.01}",
       {"1.25", "3", "0.5", "-0.5"},
       {"1.255"}}, );
}

static void multiples(void **state)
{
  CHECK({"{\"type\": \"integer\", \"multipleOf\": 12, \"minimum\": 0}",
         {"0", "12", "144", "1200000000000000000000012"},
         {"-12", "13", "1200000000000000000000013", "-0", "00"}},
        {"{\"type\": \"integer\", \"multipleOf\": 3}",
         {"-111", "0", "9999999999"},
         {"-112", "9999999998", "3.0", "-0"}},
        {"{\"type\": \"number\", \"multipleOf\": 0.01, \"minimum\": -1.5, \"maximum\": "
         "99999999999.99}",
         {"99999999999.99", "0.5", "-1.50", "-1.49", "100000.0", "0", "-0.01"},
         {"100000000000", "99999999999.990", "-1.51", "0.005", "-2", "-0.0", "1."}},
        {"{\"type\": \"number\", \"multipleOf\": 0.25, \"exclusiveMinimum\": 9.75, "
         "\"exclusiveMaximum\": 100}",
         {"10", "10.0", "99.75", "10.5", "99.50"},
         {"9.75", "9.5", "100", "100.0", "10.1", "10.750", "5", "1000"}},
        {"{\"type\": \"number\", \"multipleOf\": 10, \"exclusiveMaximum\": 100}",
         {"90", "-100", "0", "90.0", "-12345678901234567890"},
         {"100", "95", "90.5", "110"}},
        {"{\"type\": \"integer\", \"multipleOf\": 2.5, \"maximum\": -7}",
         {"-10", "-2000005"},
         {"-5", "0", "5", "-7", "-12.5"}},
        {"{\"type\": \"integer\", \"multipleOf\": 256, \"minimum\": 1024}",
         {"1024", "4096", "1280"},
         {"512", "768", "1025", "256"}},
        {"{\"type\": [\"number\", \"null\"], \"multipleOf\": 0.5, \"minimum\": 0.1, "
         "\"maximum\": 0.4}",
         {"null"},
         {"0.5", "0", "0.25"}}, );
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_and_constants),
      cmocka_unit_test(numbers_have_an_end),
      cmocka_unit_test(strings),
      cmocka_unit_test(escapes_by_digits),
      cmocka_unit_test(numbers_beyond_64_bits),
      cmocka_unit_test(numbers),
      cmocka_unit_test(multiples),
      cmocka_unit_test(lengths_of_patterns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
