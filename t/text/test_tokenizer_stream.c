/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming detokeniser: never half a character, spaces where they belong. */
#include "t/folder.h"
#include "t/tap.h"

#include "text/tokenizer/tokenizer.h"

/* Ids of the tokeniser below. */
enum { BOS, HI, YOU, E2, X82, XAC, XFF, SPACE, EURO };

static struct lls_tokenizer *load(const struct folder *folder, const char *decoder)
{
  char text[2048];
  snprintf(text, sizeof text,
           "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}],"
           "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"merges\": [],"
           "\"vocab\": {\"<s>\": 0, \"\u2581hi\": 1, \"\u2581you\": 2, \"<0xE2>\": 3,"
           "\"<0x82>\": 4, \"<0xAC>\": 5, \"<0xFF>\": 6, \"\u2581\": 7, \"\u20ac\": 8}},"
           "\"decoder\": %s}",
           decoder);
  folder_write_text(folder, "tokenizer.json", text);
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  if (lls_tokenizer_load(folder->path, &tokenizer, &err) < 0)
    fail_msg("%s", err.text);
  return tokenizer;
}

#define LLAMA                                                                            \
  "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "        \
  "{\"String\": \"\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "        \
  "{\"type\": "                                                                          \
  "\"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}"

/* Pushes ids up to -1 and compares each push's output, separated by "|", then the
 * flush. */
static void assert_streams(struct lls_detokenizer *stream, const int32_t *ids,
                           const char *expected)
{
  char text[512] = "", out[64];
  assert_true(lls_detokenizer_room(stream->tokenizer) <= sizeof out);
  for (; *ids >= 0; ids++) {
    size_t length = lls_detokenizer_push(stream, *ids, out);
    strncat(text, out, length);
    strcat(text, "|");
  }
  strncat(text, out, lls_detokenizer_flush(stream, out));
  assert_string_equal(text, expected);
}

static void test_a_character_comes_whole(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, true);
  assert_streams(&stream, (int32_t[]){E2, X82, XAC, HI, -1}, "||\u20ac| hi|");
  lls_tokenizer_free(tokenizer);
}

static void test_what_cannot_be_completed_is_replaced(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, true);
  assert_streams(&stream, (int32_t[]){E2, X82, HI, -1}, "||\ufffd hi|");
  assert_streams(&stream, (int32_t[]){XFF, XAC, -1}, "\ufffd|\ufffd|");
  assert_streams(&stream, (int32_t[]){E2, E2, X82, XAC, -1}, "|\ufffd||\u20ac|");
  assert_streams(&stream, (int32_t[]){E2, EURO, -1}, "|\ufffd\u20ac|");
  lls_tokenizer_free(tokenizer);
}

static void test_flush_replaces_what_is_left(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, true);
  assert_streams(&stream, (int32_t[]){HI, E2, X82, -1}, " hi|||\ufffd");
  assert_streams(&stream, (int32_t[]){HI, -1}, " hi|");
  lls_tokenizer_free(tokenizer);
}

static void test_first_space_is_dropped_unless_it_continues(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, false);
  assert_streams(&stream, (int32_t[]){HI, YOU, -1}, "hi| you|");
  lls_detokenizer_init(&stream, tokenizer, false, false);
  assert_streams(&stream, (int32_t[]){SPACE, HI, -1}, "| hi|");
  lls_detokenizer_init(&stream, tokenizer, false, true);
  assert_streams(&stream, (int32_t[]){HI, YOU, -1}, " hi| you|");
  lls_tokenizer_free(tokenizer);
}

static void test_special_tokens_are_skipped(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, true, false);
  assert_streams(&stream, (int32_t[]){BOS, HI, BOS, YOU, -1}, "|hi|| you|");
  lls_detokenizer_init(&stream, tokenizer, false, false);
  assert_streams(&stream, (int32_t[]){BOS, HI, -1}, "<s>| hi|");
  lls_tokenizer_free(tokenizer);
}

static void test_metaspace_drops_the_first_tokens_spaces(void **state)
{
  struct lls_tokenizer *tokenizer =
      load(*state, "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\","
                   "\"prepend_scheme\": \"always\"}");
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, true, false);
  assert_streams(&stream, (int32_t[]){BOS, HI, YOU, -1}, "|hi| you|");
  lls_detokenizer_init(&stream, tokenizer, true, true);
  assert_streams(&stream, (int32_t[]){HI, YOU, -1}, " hi| you|");
  lls_tokenizer_free(tokenizer);
}

static void test_ids_outside_the_vocabulary_are_silent(void **state)
{
  struct lls_tokenizer *tokenizer = load(*state, LLAMA);
  struct lls_detokenizer stream;
  lls_detokenizer_init(&stream, tokenizer, false, true);
  assert_streams(&stream, (int32_t[]){999, HI, -1}, "| hi|");
  lls_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_a_character_comes_whole),
      IN_FOLDER(test_what_cannot_be_completed_is_replaced),
      IN_FOLDER(test_flush_replaces_what_is_left),
      IN_FOLDER(test_first_space_is_dropped_unless_it_continues),
      IN_FOLDER(test_special_tokens_are_skipped),
      IN_FOLDER(test_metaspace_drops_the_first_tokens_spaces),
      IN_FOLDER(test_ids_outside_the_vocabulary_are_silent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
