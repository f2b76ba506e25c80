/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenisers in GGUF files: the ids equal llama.cpp's (tools/gguf_vectors.py). */
#include "t/gguf.h"

#include "core/model/model_text.h"

#include <errno.h>
#include <jansson.h>

static struct lls_tokenizer *load(const char *path)
{
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  if (lls_model_tokenizer(path, &tokenizer, &err) < 0)
    fail_msg("%s", err.text);
  return tokenizer;
}

static void assert_encodes(const struct lls_tokenizer *tokenizer, const json_t *text,
                           const json_t *expected)
{
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(lls_tokenizer_encode(tokenizer, json_string_value(text),
                                        json_string_length(text), true, &ids, &count,
                                        NULL),
                   0);
  bool same = count == json_array_size(expected);
  for (size_t i = 0; i < count && same; i++)
    same = ids[i] == json_integer_value(json_array_get(expected, i));
  free(ids);
  if (!same)
    fail_msg("wrong ids for \"%s\"", json_string_value(text));
}

static void test_ids_are_those_of_llama_cpp(void **state)
{
  char file[128];
  snprintf(file, sizeof file, "t/data/gguf/%s.gguf", (const char *)*state);
  struct lls_tokenizer *tokenizer = load(source_path(file));
  snprintf(file, sizeof file, "t/data/gguf/%s.json", (const char *)*state);
  json_t *ids = json_load_file(source_path(file), 0, NULL);
  json_t *texts = json_load_file(source_path("t/data/gguf/texts.json"), 0, NULL), *text;
  assert_true(json_array_size(texts) >= 100);
  size_t i;
  json_array_foreach(texts, i, text)
  {
    assert_encodes(tokenizer, text, json_array_get(ids, i));
  }
  json_decref(texts);
  json_decref(ids);
  lls_tokenizer_free(tokenizer);
}

/* ---- files made here ------------------------------------------------------------ */

static const char *write_file(struct gguf_builder *b, const struct folder *folder)
{
  static char path[512];
  gguf_write(b, folder, "x.gguf");
  gguf_free(b);
  snprintf(path, sizeof path, "%s/x.gguf", folder->path);
  return path;
}

/* Older files, written before the two keys existed. */
static void test_what_a_file_leaves_out_is_told(void **state)
{
  static const struct {
    const char *kind, *pre;
    bool types;
    const char *sentence;
  } cases[] = {
      {"gpt2", NULL, true, "tokenizer.ggml.pre does not name how text is split"},
      {"gpt2", "default", true, "tokenizer.ggml.pre does not name how text is split"},
      {"gpt2", "qwen2", false, "tokenizer.ggml.token_type is missing"},
      {"llama", NULL, false, "tokenizer.ggml.token_type is missing"},
      {"gpt2", "qwen2", true, NULL},
      {"llama", NULL, true, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct gguf_builder b = {0};
    struct lls_error sentence = {0};
    uint32_t normal = 1;
    gguf_text(&b, "general.architecture", "llama");
    gguf_text(&b, "tokenizer.ggml.model", cases[i].kind);
    if (cases[i].pre != NULL)
      gguf_text(&b, "tokenizer.ggml.pre", cases[i].pre);
    if (cases[i].types)
      gguf_append(gguf_list(&b, "tokenizer.ggml.token_type", LLS_GGUF_I32, 1), &normal,
                  sizeof normal);
    bool lacks = lls_model_tokenizer_lacks(write_file(&b, *state), &sentence);
    assert_int_equal(lacks, cases[i].sentence != NULL);
    if (lacks && strstr(sentence.text, cases[i].sentence) == NULL)
      fail_msg("\"%s\" should contain \"%s\"", sentence.text, cases[i].sentence);
  }
}

static void add_texts(struct gguf_builder *b, const char *key, const char *const *texts,
                      size_t n)
{
  struct gguf_part *p = gguf_list(b, key, LLS_GGUF_STRING, n);
  for (size_t i = 0; i < n; i++)
    gguf_append_text(p, texts[i]);
}

/* "a" to "c", a control token, and one that users defined. */
static void add_tokenizer(struct gguf_builder *b)
{
  static const char *const tokens[] = {"a", "b", "ab", "<s>", "<tool>"};
  static const uint32_t types[] = {1, 1, 1, 3, 4};
  static const char *const merges[] = {"a b"};
  gguf_text(b, "general.architecture", "llama");
  gguf_text(b, "tokenizer.ggml.model", "gpt2");
  add_texts(b, "tokenizer.ggml.tokens", tokens, 5);
  add_texts(b, "tokenizer.ggml.merges", merges, 1);
  gguf_append(gguf_list(b, "tokenizer.ggml.token_type", LLS_GGUF_I32, 5), types,
              sizeof types);
}

static size_t count_tokens(const char *path, const char *text, int32_t *first)
{
  struct lls_tokenizer *tokenizer = load(path);
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &count, NULL), 0);
  *first = count > 0 ? ids[0] : -1;
  free(ids);
  lls_tokenizer_free(tokenizer);
  return count;
}

/* Byte-level tokenisers add no BOS unless the file says so, or their name implies
 * it. */
static void test_beginning_of_text(void **state)
{
  struct gguf_builder b = {0};
  int32_t first;
  add_tokenizer(&b);
  gguf_number(&b, "tokenizer.ggml.bos_token_id", 3);
  assert_int_equal(count_tokens(write_file(&b, *state), "ab", &first), 1);
  add_tokenizer(&b);
  gguf_number(&b, "tokenizer.ggml.bos_token_id", 3);
  gguf_append(gguf_key(&b, "tokenizer.ggml.add_bos_token", LLS_GGUF_BOOL), "\1", 1);
  assert_int_equal(count_tokens(write_file(&b, *state), "ab", &first), 2);
  assert_int_equal(first, 3);
  add_tokenizer(&b);
  gguf_number(&b, "tokenizer.ggml.bos_token_id", 3);
  gguf_text(&b, "tokenizer.ggml.pre", "llama-bpe");
  assert_int_equal(count_tokens(write_file(&b, *state), "ab", &first), 2);
  add_tokenizer(&b);
  gguf_text(&b, "tokenizer.ggml.pre", "llama-bpe");
  assert_int_equal(count_tokens(write_file(&b, *state), "ab", &first), 1);
}

static void test_types_of_tokens(void **state)
{
  struct gguf_builder b = {0};
  add_tokenizer(&b);
  struct lls_tokenizer *tokenizer = load(write_file(&b, *state));
  assert_true(lls_tokenizer_is_special(tokenizer, 3));
  assert_false(lls_tokenizer_is_special(tokenizer, 4));
  assert_false(lls_tokenizer_is_special(tokenizer, 0));
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, "ab<tool>a", 9, true, &ids, &count, NULL), 0);
  assert_int_equal(count, 3);
  assert_int_equal(ids[1], 4);
  free(ids);
  lls_tokenizer_free(tokenizer);
}

static void test_the_chat_template(void **state)
{
  struct gguf_builder b = {0};
  struct lls_chat_template *chat_template = NULL;
  char *text;
  size_t length;
  add_tokenizer(&b);
  gguf_number(&b, "tokenizer.ggml.eos_token_id", 3);
  gguf_text(&b, "tokenizer.chat_template", "{{ messages[0].content }}{{ eos_token }}");
  assert_int_equal(
      lls_model_chat_template(write_file(&b, *state), NULL, &chat_template, NULL), 0);
  json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hello");
  assert_int_equal(lls_chat_template_render(chat_template, messages, NULL, true, 0, &text,
                                            &length, NULL),
                   0);
  assert_string_equal(text, "Hello<s>");
  free(text);
  json_decref(messages);
  lls_chat_template_free(chat_template);
}

static void expect_refusal(struct gguf_builder *b, const struct folder *folder, int code,
                           const char *sentence)
{
  struct lls_error err = {0};
  struct lls_tokenizer *tokenizer = NULL;
  assert_int_equal(lls_model_tokenizer(write_file(b, folder), &tokenizer, &err), code);
  if (strstr(err.text, sentence) == NULL || strstr(err.text, "x.gguf") == NULL)
    fail_msg("\"%s\" should contain \"%s\" and name the file", err.text, sentence);
}

static void test_what_is_refused(void **state)
{
  static const char *const broken[] = {"a", "\xff"}, *const unknown[] = {"a b"};
  struct gguf_builder b = {0};
  add_tokenizer(&b);
  gguf_text(&b, "tokenizer.ggml.pre", "klingon");
  expect_refusal(&b, *state, -ENOTSUP, "tokenizer.ggml.pre \"klingon\" is not supported");
  gguf_text(&b, "tokenizer.ggml.model", "rwkv");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  expect_refusal(&b, *state, -ENOTSUP, "tokenizer.ggml.model \"rwkv\" is not supported");
  gguf_text(&b, "tokenizer.ggml.model", "t5");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  expect_refusal(&b, *state, -EINVAL, "tokenizer.ggml.scores is missing");
  gguf_text(&b, "tokenizer.ggml.model", "gpt2");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  expect_refusal(&b, *state, -EINVAL, "tokenizer.ggml.merges is missing");
  gguf_text(&b, "tokenizer.ggml.model", "gpt2");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  add_texts(&b, "tokenizer.ggml.merges", unknown, 1);
  expect_refusal(&b, *state, -EINVAL, "x.gguf: ");
  gguf_text(&b, "tokenizer.ggml.model", "llama");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  expect_refusal(&b, *state, -EINVAL, "tokenizer.ggml.scores is missing");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 2);
  expect_refusal(&b, *state, -EINVAL,
                 "item 1 of tokenizer.ggml.tokens is not valid UTF-8");
  gguf_text(&b, "tokenizer.ggml.model", "gpt2");
  expect_refusal(&b, *state, -EINVAL, "tokenizer.ggml.tokens should be 1 to");
  add_texts(&b, "tokenizer.ggml.tokens", broken, 1);
  gguf_append(gguf_list(&b, "tokenizer.ggml.token_type", LLS_GGUF_U8, 2), "\1\1", 2);
  expect_refusal(&b, *state, -EINVAL, "token_type has 2 items, but there are 1 tokens");
}

#define IDS(name)                                                                        \
  {                                                                                      \
    "ids: " name, test_ids_are_those_of_llama_cpp, NULL, NULL, (char[])                  \
    {                                                                                    \
      name                                                                               \
    }                                                                                    \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      IDS("gpt-2"),
      IDS("llama-bpe"),
      IDS("qwen2"),
      IDS("smollm"),
      IDS("tekken"),
      IDS("gpt-4o"),
      IDS("deepseek-v3"),
      IDS("deepseek-coder"),
      IDS("deepseek-llm"),
      IDS("falcon"),
      IDS("default"),
      IDS("llama"),
      IDS("gemma4"),
      IN_FOLDER(test_what_a_file_leaves_out_is_told),
      IN_FOLDER(test_beginning_of_text),
      IN_FOLDER(test_types_of_tokens),
      IN_FOLDER(test_the_chat_template),
      IN_FOLDER(test_what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
