/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenisers against the reference: t/data/tokenizer has a small one of each family,
 * with texts, the reference library's ids and its decoded texts.
 */
#include "t/folder.h"
#include "t/tap.h"

#include "text/tokenizer/tokenizer.h"

#include <errno.h>
#include <jansson.h>

static struct lls_tokenizer *load(const char *folder)
{
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  if (lls_tokenizer_load(folder, &tokenizer, &err) < 0)
    fail_msg("%s", err.text);
  return tokenizer;
}

static struct lls_tokenizer *load_family(const char *family)
{
  char folder[256];
  snprintf(folder, sizeof folder, "t/data/tokenizer/%s", family);
  return load(source_path(folder));
}

static void assert_encodes(const struct lls_tokenizer *tokenizer, const char *text,
                           size_t length, const json_t *expected)
{
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, text, length, true, &ids, &count, NULL), 0);
  bool same = count == json_array_size(expected);
  for (size_t i = 0; i < count && same; i++)
    same = ids[i] == json_integer_value(json_array_get(expected, i));
  free(ids);
  if (!same)
    fail_msg("wrong ids for \"%s\"", text);
}

static void assert_decodes(const struct lls_tokenizer *tokenizer, const json_t *ids,
                           const char *expected)
{
  char *text = malloc((json_array_size(ids) + 1) * lls_detokenizer_room(tokenizer));
  size_t length = 0;
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, false);
  for (size_t i = 0; i < json_array_size(ids); i++)
    length += lls_detokenizer_push(
        &stream, (int32_t)json_integer_value(json_array_get(ids, i)), text + length);
  length += lls_detokenizer_flush(&stream, text + length);
  if (length != strlen(expected) || memcmp(text, expected, length) != 0)
    fail_msg("decoded \"%.*s\" instead of \"%s\"", (int)length, text, expected);
  free(text);
}

static void test_vectors(void **state)
{
  const char *family = *state;
  struct lls_tokenizer *tokenizer = load_family(family);
  char file[256];
  snprintf(file, sizeof file, "t/data/tokenizer/%s/vectors.json", family);
  json_t *vectors = json_load_file(source_path(file), 0, NULL);
  assert_true(json_array_size(vectors) >= 47);
  size_t i;
  json_t *vector;
  json_array_foreach(vectors, i, vector)
  {
    const json_t *text = json_array_get(vector, 0), *ids = json_array_get(vector, 1);
    assert_encodes(tokenizer, json_string_value(text), json_string_length(text), ids);
    assert_decodes(tokenizer, ids, json_string_value(json_array_get(vector, 2)));
  }
  json_decref(vectors);
  lls_tokenizer_free(tokenizer);
}

static void test_stories_prompts(void **state)
{
  (void)state;
  struct lls_tokenizer *tokenizer = load(source_path("t/data/models/stories260K"));
  FILE *golden = fopen(source_path("t/data/models/stories260K/golden.jsonl"), "r");
  assert_non_null(golden);
  json_t *line;
  int lines = 0;
  while ((line = json_loadf(golden, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
    const json_t *prompt = json_object_get(line, "prompt");
    assert_encodes(tokenizer, json_string_value(prompt), json_string_length(prompt),
                   json_object_get(line, "prompt_ids"));
    json_decref(line);
    lines++;
  }
  fclose(golden);
  assert_int_equal(lines, 6);
  assert_int_equal(lls_tokenizer_size(tokenizer), 512);
  assert_int_equal(lls_tokenizer_bos(tokenizer), 1);
  assert_int_equal(lls_tokenizer_eos(tokenizer), 2);
  lls_tokenizer_free(tokenizer);
}

static void test_vocabulary_questions(void **state)
{
  (void)state;
  struct lls_tokenizer *tokenizer = load_family("llama2");
  size_t length = 0;
  assert_int_equal(lls_tokenizer_find(tokenizer, "</s>"), 2);
  assert_int_equal(lls_tokenizer_find(tokenizer, "no such token"), -1);
  assert_int_equal(lls_tokenizer_find(tokenizer, ""), -1);
  assert_true(lls_tokenizer_is_special(tokenizer, 1));
  assert_false(lls_tokenizer_is_special(tokenizer, 3));
  assert_false(lls_tokenizer_is_special(tokenizer, -1));
  assert_memory_equal(lls_tokenizer_string(tokenizer, 3, &length), "<0x00>", 6);
  assert_int_equal(length, 6);
  assert_memory_equal(lls_tokenizer_token_bytes(tokenizer, 3 + 0xe2, &length), "\xe2", 1);
  assert_int_equal(length, 1);
  int32_t the = lls_tokenizer_find(tokenizer, "\xe2\x96\x81the");
  assert_memory_equal(lls_tokenizer_token_bytes(tokenizer, the, &length), " the", 4);
  assert_null(lls_tokenizer_string(tokenizer, 1000000, &length));
  assert_null(lls_tokenizer_token_bytes(tokenizer, -1, &length));
  lls_tokenizer_free(tokenizer);
}

static void test_special_ids_only_when_asked(void **state)
{
  (void)state;
  struct lls_tokenizer *tokenizer = load_family("llama3");
  int32_t *with = NULL, *without = NULL;
  size_t with_count, without_count;
  lls_tokenizer_encode(tokenizer, "it was", 6, true, &with, &with_count, NULL);
  lls_tokenizer_encode(tokenizer, "it was", 6, false, &without, &without_count, NULL);
  assert_int_equal(with_count, without_count + 1);
  assert_int_equal(with[0], lls_tokenizer_bos(tokenizer));
  assert_memory_equal(with + 1, without, without_count * sizeof *with);
  free(with);
  free(without);
  lls_tokenizer_free(tokenizer);
}

static void test_broken_utf8_counts_as_replacement(void **state)
{
  (void)state;
  struct lls_tokenizer *tokenizer = load_family("gpt2");
  int32_t *broken = NULL, *repaired = NULL;
  size_t broken_count, repaired_count;
  const char *text = "a\xff\xe2\x96z\xed\xa0\x80";
  const char *meant = "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd";
  lls_tokenizer_encode(tokenizer, text, strlen(text), false, &broken, &broken_count,
                       NULL);
  lls_tokenizer_encode(tokenizer, meant, strlen(meant), false, &repaired, &repaired_count,
                       NULL);
  assert_int_equal(broken_count, repaired_count);
  assert_memory_equal(broken, repaired, broken_count * sizeof *broken);
  free(broken);
  free(repaired);
  lls_tokenizer_free(tokenizer);
}

/* Would take hours if merging, matching or ordering of marks took quadratic time. */
static void test_a_megabyte_in_one_word(void **state)
{
  const char *const *unit = *state; /* family, text */
  struct lls_tokenizer *tokenizer = load_family(unit[0]);
  size_t width = strlen(unit[1]), length = (1 << 20) / width * width;
  char *text = malloc(length);
  for (size_t at = 0; at < length; at += width)
    memcpy(text + at, unit[1], width);
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, text, length, false, &ids, &count, NULL), 0);
  assert_true(count > 0 && count <= length + 1);
  free(ids);
  free(text);
  lls_tokenizer_free(tokenizer);
}

static size_t count_first(const struct folder *folder, const char *config, int32_t *first)
{
  folder_write_text(folder, "tokenizer_config.json", config);
  struct lls_tokenizer *tokenizer = load(folder->path);
  int32_t *ids = NULL;
  size_t count = 0;
  lls_tokenizer_encode(tokenizer, "ab", 2, true, &ids, &count, NULL);
  *first = count > 0 ? ids[0] : -1;
  free(ids);
  lls_tokenizer_free(tokenizer);
  return count;
}

static void test_config_overrules_bos(void **state)
{
  const struct folder *folder = *state;
  int32_t first;
  folder_write_text(folder, "tokenizer.json",
                    "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<s>\": 3},"
                    "\"merges\": [[\"a\", \"b\"]]}, \"decoder\": {\"type\": \"Fuse\"},"
                    "\"post_processor\": {\"type\": \"BertProcessing\","
                    "\"cls\": [\"<s>\", 3], \"sep\": [\"b\", 1]}}");
  assert_int_equal(count_first(folder, "{\"bos_token\": \"<s>\"}", &first), 3);
  assert_int_equal(first, 3);
  const char *without =
      "{\"bos_token\": {\"content\": \"<s>\"}, \"add_bos_token\": false,"
      "\"eos_token\": \"b\", \"add_eos_token\": false}";
  assert_int_equal(count_first(folder, without, &first), 1);
  assert_int_equal(first, 2);
  const char *with = "{\"bos_token\": \"<s>\", \"add_bos_token\": true}";
  assert_int_equal(count_first(folder, with, &first), 3);
  assert_int_equal(first, 3);
}

/* The files that GPT-2 and OPT were published with, before tokenizer.json existed. */
static void test_vocab_and_merges(void **state)
{
  const struct folder *folder = *state;
  int32_t first;
  folder_write_text(folder, "vocab.json",
                    "{\"</s>\": 2, \"a\": 4, \"b\": 5, \"ab\": 6, \"\u0120\": 7}");
  folder_write_text(folder, "merges.txt", "#version: 0.2\na b\n");
  const char *config = "{\"bos_token\": \"</s>\", \"add_bos_token\": true}";
  assert_int_equal(count_first(folder, config, &first), 2);
  assert_int_equal(first, 2);
  struct lls_tokenizer *tokenizer = load(folder->path);
  assert_true(lls_tokenizer_is_special(tokenizer, 2));
  assert_int_equal(lls_tokenizer_size(tokenizer), 8);
  lls_tokenizer_free(tokenizer);
}

int main(void)
{
  static const char *letters[] = {"gpt2", "theandofwas"};
  static const char *plain[] = {"llama2", "the dog and "};
  static const char *spaces[] = {"llama3", " "};
  static const char *marks[] = {"neox", "\xcc\x81\xcc\xa7"};
  static const char *unknown[] = {"metaspace", "\xe2\x82\xac"};
  static const char *pieces[] = {"unigram", "theandofwas"};
  static const char *cluster[] = {"unigram-bytes", "\xcc\x81\xcc\xa7"};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_vectors, "gpt2"),
      cmocka_unit_test_prestate(test_vectors, "llama3"),
      cmocka_unit_test_prestate(test_vectors, "neox"),
      cmocka_unit_test_prestate(test_vectors, "qwen"),
      cmocka_unit_test_prestate(test_vectors, "falcon"),
      cmocka_unit_test_prestate(test_vectors, "mixed"),
      cmocka_unit_test_prestate(test_vectors, "llama2"),
      cmocka_unit_test_prestate(test_vectors, "metaspace"),
      cmocka_unit_test_prestate(test_vectors, "unigram"),
      cmocka_unit_test_prestate(test_vectors, "unigram-bytes"),
      cmocka_unit_test_prestate(test_vectors, "bert"),
      cmocka_unit_test_prestate(test_vectors, "real-gpt2"),
      cmocka_unit_test_prestate(test_vectors, "real-opt"),
      cmocka_unit_test_prestate(test_vectors, "real-neox"),
      cmocka_unit_test_prestate(test_vectors, "real-bert"),
      cmocka_unit_test(test_stories_prompts),
      cmocka_unit_test(test_vocabulary_questions),
      cmocka_unit_test(test_special_ids_only_when_asked),
      cmocka_unit_test(test_broken_utf8_counts_as_replacement),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, letters),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, plain),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, spaces),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, marks),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, unknown),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, pieces),
      cmocka_unit_test_prestate(test_a_megabyte_in_one_word, cluster),
      IN_FOLDER(test_config_overrules_bos),
      IN_FOLDER(test_vocab_and_merges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
