/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged or unsupported tokeniser causes one error that names the file and the
 * construct. */
#include "t/folder.h"
#include "t/tap.h"

#include "text/tokenizer/tokenizer.h"

#include <errno.h>

#define MODEL(members)                                                                   \
  "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, " members \
  "}, \"decoder\": {\"type\": \"Fuse\"}}"
#define WITH(member)                                                                     \
  "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}, "   \
  "\"decoder\": {\"type\": \"Fuse\"}, " member "}"
#define DECODER(decoder)                                                                 \
  "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, "             \
  "\"decoder\": " decoder "}"
#define UNIGRAM(vocab, unknown)                                                          \
  "{\"model\": {\"type\": \"Unigram\", \"vocab\": " vocab ", \"unk_id\": " unknown       \
  "}, \"decoder\": {\"type\": \"Fuse\"}}"
#define CHARSMAP(table)                                                                  \
  WITH("\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": " table "}")
#define SPLIT(regex)                                                                     \
  WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", "           \
       "\"pattern\": {\"Regex\": \"" regex "\"}}")

static const struct refusal {
  const char *text;     /* of tokenizer.json */
  const char *sentence; /* part of the error message */
} refusals[] = {
    {"{\"model\": ", "/tokenizer.json:1: not valid JSON"},
    {"[]", "/tokenizer.json: not a JSON object"},
    {"{}", "/tokenizer.json: model: \"type\" is missing"},
    {"{\"model\": {\"type\": \"WordLevel\"}}", "model: type \"WordLevel\" is not"},
    {UNIGRAM("{}", "0"), "model: \"vocab\" is not a list of 1 to"},
    {UNIGRAM("[[\"a\", -1]]", "null"), "\"unk_id\" is not an id of \"vocab\""},
    {UNIGRAM("[[\"a\", -1]]", "1"), "\"unk_id\" is not an id of \"vocab\""},
    {UNIGRAM("[[\"a\", \"b\"]]", "0"), "item 0 of \"vocab\" is not a text and its score"},
    {UNIGRAM("[[\"a\", -1], [\"a\", -2]]", "0"), "token \"a\" has two ids, 0 and 1"},
    {CHARSMAP("\"?\""), "normalizer: \"precompiled_charsmap\" is not a table"},
    {CHARSMAP("null"), "normalizer: \"precompiled_charsmap\" is not a table"},
    {CHARSMAP("\"BAAAAAAAAABh\""), "is not a table"},     /* a text without its end */
    {CHARSMAP("\"CAAAAAAAAABhAA==\""), "is not a table"}, /* a trie beyond the end */
    {CHARSMAP("\"BAAAAAAAAAD/AA==\""), "is not a table"}, /* no UTF-8 */
    {"{\"model\": {\"type\": \"BPE\"}}", "model: \"vocab\" is missing or empty"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"0\"}}}",
     "token \"a\" is not an"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}}}",
     "token \"a\" is not an"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}}", "token \"a\" is not an"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1, \"b\": 1}}}",
     "two tokens have id 1, \"a\" and \"b\""},
    {MODEL("\"merges\": 1"), "\"merges\" is not a list"},
    {MODEL("\"merges\": [\"a b\", \"a c\"]"), "merge 1 (\"a\" and \"c\")"},
    {MODEL("\"merges\": [\"ab\"]"), "merge 0 is not a pair"},
    {MODEL("\"merges\": [[\"a\"]]"), "merge 0 is not a pair"},
    {MODEL("\"merges\": [], \"unk_token\": \"?\""), "unk_token \"?\" is not in the"},
    {MODEL("\"merges\": [], \"dropout\": 0.1"), "\"dropout\" is not supported"},
    {MODEL("\"merges\": [], \"end_of_word_suffix\": \"</w>\""), "\"end_of_word_suffix\""},
    {WITH("\"normalizer\": {\"type\": \"Nmt\"}"), "normalizer: type \"Nmt\" is not"},
    {WITH("\"normalizer\": {\"type\": \"Prepend\"}"), "normalizer: \"prepend\" is not a"},
    {WITH("\"normalizer\": {\"type\": \"Sequence\"}"), "\"normalizers\" is not a list"},
    {WITH("\"normalizer\": 3"), "normalizer: \"type\" is missing"},
    {WITH("\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}"),
     "\"UnicodeScripts\" is not"},
    {WITH("\"pre_tokenizer\": {\"type\": \"Split\"}"), "behavior \"(none)\""},
    {WITH("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}"),
     "prepend_scheme \"last\" is not supported"},
    {SPLIT("a("), "pre_tokenizer: regular expression \"a(\": missing closing"},
    {SPLIT("[a&&b]"), "offset 2: an intersection of classes other than"},
    {SPLIT("[^a&&[b]]"), "offset 3: an intersection of classes other than"},
    {SPLIT("[&&[b]]"), "offset 1: an intersection of classes other than"},
    {SPLIT("[a&&[b]c]"), "offset 6: more than two classes in an intersection"},
    {SPLIT("[a&&[b]&&[c]]"), "offset 6: more than two classes in an intersection"},
    {SPLIT("[a&&[b&&[c]]]"), "an intersection of classes other than"},
    {SPLIT("[a&&[]]"), "offset 5: a class is empty"},
    {SPLIT("[a&&[b"), "offset 6: a class is not closed"},
    {SPLIT("[a&&[b]"), "offset 6: more than two classes in an intersection"},
    {SPLIT("[a[b]]"), "offset 2: a class inside a class"},
    {SPLIT("a{1,2}+"), "offset 5: a + after {n,m}"},
    {SPLIT("\\\\bword"), "offset 0: this escape is not supported"},
    {SPLIT("(?m:.)"), "offset 0: the options m and x"},
    {SPLIT("\\\\"), "it ends in a backslash"},
    {SPLIT("\\\\p{L"), "a { is not closed"},
    {SPLIT("\\\\p{Nothing}"), "unknown property"},
    {WITH("\"post_processor\": {\"type\": \"Other\"}"),
     "post_processor: type \"Other\" is"},
    {WITH("\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"x\", 7], "
          "\"sep\": [\"a\", 0]}"),
     "id 7 is not in the vocabulary"},
    {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}"),
     "no place for the text"},
    {WITH("\"added_tokens\": [{\"id\": 0, \"content\": \"c\"}]"), "two tokens have id 0"},
    {WITH("\"added_tokens\": [{\"id\": 5, \"content\": \"a\"}]"), "two ids, 0 and 5"},
    {WITH("\"added_tokens\": [{\"content\": \"c\"}]"), "added_tokens: entry 0 has no"},
    {DECODER("null"), "decoder: it is missing"},
    {DECODER("{\"type\": \"CTC\"}"), "decoder: type \"CTC\" is not supported"},
    {DECODER("{\"type\": \"Strip\", \"content\": \"ab\", \"start\": 1}"),
     "not one character"},
    {DECODER("{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, "
             "{\"type\": \"ByteFallback\"}]}"),
     "type \"ByteFallback\" after tokens are joined"},
};

static void test_refusals(void **state)
{
  const struct folder *folder = *state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    struct lls_error err = {0};
    struct lls_tokenizer *tokenizer = NULL;
    folder_write_text(folder, "tokenizer.json", refusals[i].text);
    if (lls_tokenizer_load(folder->path, &tokenizer, &err) >= 0)
      fail_msg("accepted: %s", refusals[i].text);
    if (strstr(err.text, refusals[i].sentence) == NULL ||
        strstr(err.text, folder->path) == NULL)
      fail_msg("\"%s\" does not hold \"%s\"", err.text, refusals[i].sentence);
  }
}

static void test_empty_folder(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  assert_true(lls_tokenizer_load(folder->path, &tokenizer, &err) < 0);
  assert_non_null(strstr(err.text, "there is no tokenizer.json, nor a vocab.json"));
  folder_write_text(folder, "vocab.json", "{\"a\": 0}");
  assert_true(lls_tokenizer_load(folder->path, &tokenizer, &err) < 0);
  assert_non_null(strstr(err.text, "merges.txt: cannot open"));
  assert_true(lls_tokenizer_load(folder->path, &tokenizer, NULL) < 0);
}

static void test_bos_that_is_not_there(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  folder_write_text(folder, "tokenizer.json", WITH("\"version\": \"1.0\""));
  folder_write_text(folder, "tokenizer_config.json",
                    "{\"bos_token\": \"<s>\", \"add_bos_token\": true}");
  assert_true(lls_tokenizer_load(folder->path, &tokenizer, &err) < 0);
  assert_non_null(strstr(err.text, "tokenizer_config.json: a token is to be added"));
}

#define GROW                                                                             \
  "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaa\"}"
#define COPY                                                                             \
  "{\"type\": \"Replace\", \"pattern\": {\"String\": \"z\"}, \"content\": \"y\"}"
#define COPY_10                                                                          \
  COPY ", " COPY ", " COPY ", " COPY ", " COPY ", " COPY ", " COPY ", " COPY ", " COPY   \
       ", " COPY
#define COPY_100                                                                         \
  COPY_10 ", " COPY_10 ", " COPY_10 ", " COPY_10 ", " COPY_10 ", " COPY_10 ", " COPY_10  \
          ", " COPY_10 ", " COPY_10 ", " COPY_10
#define COPY_1000                                                                        \
  COPY_100 ", " COPY_100 ", " COPY_100 ", " COPY_100 ", " COPY_100 ", " COPY_100         \
           ", " COPY_100 ", " COPY_100 ", " COPY_100 ", " COPY_100
#define NORMALIZERS(list)                                                                \
  WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" list "]}")

/* Encodes a text of 1,000 bytes; returns the status and the error. */
static int encode_with(const struct folder *folder, const char *tokenizer_json,
                       struct lls_error *err)
{
  struct lls_tokenizer *tokenizer = NULL;
  char text[1000];
  int32_t *ids = NULL;
  size_t count;
  memset(text, 'a', sizeof text);
  folder_write_text(folder, "tokenizer.json", tokenizer_json);
  *err = (struct lls_error){0};
  if (lls_tokenizer_load(folder->path, &tokenizer, err) < 0)
    fail_msg("%s", err->text);
  int code = lls_tokenizer_encode(tokenizer, text, sizeof text, false, &ids, &count, err);
  if (code == 0)
    free(ids);
  lls_tokenizer_free(tokenizer);
  return code;
}

/* A chain of normalisers may neither multiply a text nor copy it endlessly. */
static void test_normalizers_are_bounded(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err;
  assert_int_equal(encode_with(folder, NORMALIZERS(GROW ", " GROW), &err), 0);
  assert_int_equal(encode_with(folder, NORMALIZERS(COPY_100), &err), 0);
  assert_int_equal(
      encode_with(folder, NORMALIZERS(GROW ", " GROW ", " GROW ", " GROW), &err), -EFBIG);
  assert_non_null(strstr(err.text, "the model's normalizers make too much of this text"));
  assert_int_equal(
      encode_with(folder, NORMALIZERS(COPY_100 ", " COPY_100 ", " COPY_100), &err),
      -EFBIG);
}

#define DECODERS(list) DECODER("{\"type\": \"Sequence\", \"decoders\": [" list "]}")

/* Nor may a chain of decoders: each token's text is computed when the model is
 * loaded. */
static void test_decoders_are_bounded(void **state)
{
  const struct folder *folder = *state;
  static const char *const too_much[] = {
      DECODERS(GROW ", " GROW ", " GROW ", " GROW ", " GROW),
      DECODERS(COPY_1000 ", " COPY_1000 ", " COPY_1000)};
  struct lls_tokenizer *tokenizer = NULL;
  struct lls_error err = {0};
  folder_write_text(folder, "tokenizer.json", DECODERS(GROW ", " GROW ", " COPY_100));
  if (lls_tokenizer_load(folder->path, &tokenizer, &err) < 0)
    fail_msg("%s", err.text);
  lls_tokenizer_free(tokenizer);
  for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++) {
    folder_write_text(folder, "tokenizer.json", too_much[i]);
    assert_int_equal(lls_tokenizer_load(folder->path, &tokenizer, &err), -EFBIG);
    assert_non_null(strstr(err.text, "its steps make too much of a token"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_refusals),
      IN_FOLDER(test_empty_folder),
      IN_FOLDER(test_bos_that_is_not_there),
      IN_FOLDER(test_normalizers_are_bounded),
      IN_FOLDER(test_decoders_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
