/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting: its behaviours, and expressions that plain PCRE2 would interpret
 * differently. */
#include "t/tap.h"

#include "text/tokenizer/pretokenizer.h"

#include <string.h>

static const struct sample {
  const char *json; /* a pre-tokeniser */
  const char *text;
  const char *pieces; /* expected pieces, joined by | */
} samples[] = {
#define SPLIT(regex, rest)                                                               \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}," rest "}"
#define LITERAL(text, rest)                                                              \
  "{\"type\":\"Split\",\"pattern\":{\"String\":\"" text "\"}," rest "}"
    {LITERAL("-", "\"behavior\":\"Removed\""), "a-b--c", "a|b|c"},
    {LITERAL("-", "\"behavior\":\"Isolated\""), "a-b--c", "a|-|b|-|-|c"},
    {LITERAL("-", "\"behavior\":\"MergedWithPrevious\""), "-a-b--c", "-|a-|b-|-|c"},
    {LITERAL("-", "\"behavior\":\"MergedWithNext\""), "a-b--c-", "a|-b|-|-c|-"},
    {LITERAL("-", "\"behavior\":\"Contiguous\""), "a-b--c", "a|-|b|--|c"},
    {LITERAL(".", "\"behavior\":\"Removed\""), "a.bc", "a|bc"},
    {SPLIT("[a-z]+", "\"behavior\":\"Removed\",\"invert\":true"), "ab1c", "ab|c"},
    {SPLIT("x*", "\"behavior\":\"Isolated\""), "axxb", "a|xx|b"},
    {SPLIT("\\\\s", "\"behavior\":\"Removed\""),
     "a\u180eb\xc2\x85"
     "c\u2003d",
     "a\u180eb|c|d"},
    {SPLIT("[^\\\\s]+", "\"behavior\":\"Isolated\""), "a\u180e b", "a\u180e| |b"},
    {SPLIT("\\\\S+", "\"behavior\":\"Isolated\""), "a\u180e b", "a\u180e| |b"},
    {SPLIT("\\\\w+", "\"behavior\":\"Isolated\""), "a\u0301b_1-", "a\u0301b_1|-"},
    {SPLIT("[\\\\w-]+", "\"behavior\":\"Removed\""), "\u0301-a b", " "},
    {SPLIT("\\\\W", "\"behavior\":\"Removed\""), "\u0301-a", "\u0301|a"},
    {SPLIT("\\\\v", "\"behavior\":\"Removed\""), "a\nb\vc", "a\nb|c"},
    {SPLIT("\\\\u00e9", "\"behavior\":\"Removed\""), "a\u00e9b", "a|b"},
    {SPLIT("^b", "\"behavior\":\"Removed\""), "a\nbc", "a\n|c"},
    {SPLIT("\\\\d", "\"behavior\":\"Removed\""), "a\u0663b", "a|b"},
    {SPLIT("(?i:k)", "\"behavior\":\"Removed\""), "aKb\u212ac", "a|b|c"},
    {SPLIT("[[:digit:]]", "\"behavior\":\"Removed\""), "a1b", "a|b"},
    {SPLIT("[a-z&&[^m-p\\\\d]]+", "\"behavior\":\"Removed\""), "amnb1c", "mn|1"},
    {SPLIT("x[a-z&&[m-p]]*y", "\"behavior\":\"Removed\""), "xmny-xay", "-xay"},
    {SPLIT("[\\\\p{L}\\\\p{M}&&[^\\\\p{Han}]]+", "\"behavior\":\"Isolated\""),
     "ab\u4e2d\u6587c", "ab|\u4e2d\u6587|c"},
    {SPLIT("[]a]", "\"behavior\":\"Removed\""), "b]c", "b|c"},
    {"{\"type\":\"Digits\",\"individual_digits\":true}", "a12\u00bd", "a|1|2|\u00bd"},
    {"{\"type\":\"Digits\",\"individual_digits\":false}", "a12b", "a|12|b"},
    {"{\"type\":\"Whitespace\"}", "ab, c\u0301d!?", "ab|,|c\u0301d|!?"},
    {"{\"type\":\"WhitespaceSplit\"}", " ab,  c ", "ab,|c"},
    {"{\"type\":\"Punctuation\"}", "a,$b\u3002", "a|,|$|b|\u3002"},
    {"{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a,$b", "a|,$|b"},
    {"{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"|\"}", "a|b", "a|b"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\"}", "a b", "_a|_b"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":false}", " a  b", "_a__b"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}", "a b",
     "a|_b"},
    {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
     "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]}",
     "a b", "_a|b"},
    {"{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "it's\u00e9 1",
     "\u0120it|'s|\u00c3\u00a9|\u01201"},
    {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", "a b",
     "a\u0120b"},
    {"null", "a b", "a b"},
};

static void check(const struct sample *sample, struct lls_matcher *matcher)
{
  struct lls_error err = {0};
  struct lls_pretokenizer pretokenizer = {0};
  json_t *node = json_loads(sample->json, JSON_DECODE_ANY, NULL);
  if (lls_pretokenizer_load(&pretokenizer, node, &err) < 0)
    fail_msg("%s: %s", sample->json, err.text);
  struct lls_pieces pieces = {.at_start = true}, spare = {0};
  lls_bytes_append(&pieces.text, sample->text, strlen(sample->text));
  lls_pieces_append(&pieces, 0, pieces.text.length);
  assert_int_equal(lls_pretokenize(&pretokenizer, matcher, &pieces, &spare), 0);
  char joined[256] = "";
  for (size_t i = 0; i < pieces.count; i++) {
    if (i > 0)
      strcat(joined, "|");
    strncat(joined, pieces.text.data + pieces.spans[i].start, pieces.spans[i].length);
  }
  if (strcmp(joined, sample->pieces) != 0)
    fail_msg("%s: \"%s\" became %s", sample->json, sample->text, joined);
  lls_pieces_free(&pieces);
  lls_pieces_free(&spare);
  lls_pretokenizer_free(&pretokenizer);
  json_decref(node);
}

static void test_samples(void **state)
{
  (void)state;
  struct lls_matcher *matcher = NULL;
  assert_int_equal(lls_matcher_new(&matcher), 0);
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
    check(&samples[i], matcher);
  lls_matcher_free(matcher);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
