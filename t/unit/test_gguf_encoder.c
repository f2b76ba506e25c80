/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders in GGUF files (tools/gguf_encoders.py): vectors equal those of the folder
 * that the file was made from; settings in a file are followed, or refused. */
#include "t/gguf_files.h"

#include "core/encoder/encoder.h"
#include "core/model/pooling.h"
#include "core/model/model_text.h"
#include "kernels/cpu/device.h"

static const struct lls_encoder_text texts[] = {
    {"The quick brown fox", 19},
    {"Caf\u00e9, d\u00c9j\u00e0 vu \u4e2d\u6587 [SEP] x", 30},
    {"", 0},
    {" unbelievable  !?", 17}};

#define N_TEXTS (sizeof texts / sizeof texts[0])
#define DIMS    64

/* (N_TEXTS, DIMS) */
static uint64_t encode(const char *relative, float *vectors)
{
  struct lls_error err = {0};
  struct lls_encoder *e;
  struct lls_encoder_options o = {
      .cpu = &lls_cpu_device,
      .folder = source_path(relative),
      .weights = LLS_WEIGHTS_F32,
      .threads = 1,
  };
  if (lls_encoder_create(&o, &e, &err) != 0)
    fail_msg("%s", err.text);
  assert_true(lls_encoder_dims(e) <= DIMS);
  assert_int_equal(lls_encoder_encode(e, texts, N_TEXTS, vectors, &err), 0);
  uint64_t fingerprint = lls_encoder_fingerprint(e);
  lls_encoder_destroy(e);
  return fingerprint;
}

static void test_vectors_are_those_of_the_folder(void **state)
{
  (void)state;
  float of_file[N_TEXTS * DIMS] = {0}, of_folder[N_TEXTS * DIMS] = {0};
  uint64_t cls = encode("t/data/encoder/cls.gguf", of_file);
  encode("t/data/encoder/cls", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  uint64_t roberta = encode("t/data/encoder/roberta.gguf", of_file);
  encode("t/data/encoder/roberta", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  encode("t/data/encoder/xlmr.gguf", of_file);
  encode("t/data/encoder/xlmr", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  encode("t/data/encoder/nomic.gguf", of_file);
  encode("t/data/encoder/nomic", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  encode("t/data/encoder/modernbert.gguf", of_file);
  encode("t/data/encoder/modernbert", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  encode("t/data/encoder/gemma.gguf", of_file);
  encode("t/data/encoder/gemma", of_folder);
  assert_memory_equal(of_file, of_folder, sizeof of_file);
  assert_true(cls !=
              /* otherwise the vectors of one would be compared with the other's */
              roberta);
}

/* ---- what the file says ------------------------------------------------------------ */

static void describe(struct gguf_builder *b)
{
  *b = (struct gguf_builder){0};
  gguf_text(b, "general.architecture", "bert");
  gguf_number(b, "bert.block_count", 1);
  gguf_number(b, "bert.embedding_length", 8);
  gguf_number(b, "bert.feed_forward_length", 8);
  gguf_number(b, "bert.attention.head_count", 2);
  gguf_number(b, "bert.context_length", 16);
  gguf_tensor(b, "token_embd.weight", 0, 2, 8, bytes, 64);
}

static void expect(struct gguf_builder *b, const struct folder *folder, int code,
                   const char *sentence)
{
  struct lls_model_config c;
  struct lls_error err = {0};
  end(b, folder);
  int rc = lls_model_config_read(path_of(folder, FILE_NAME), &c, &err);
  if (rc != code || strstr(err.text, sentence) == NULL)
    fail_msg("%d and \"%s\" should be %d and contain \"%s\"", rc, err.text, code,
             sentence);
}

static void test_what_is_refused(void **state)
{
  struct gguf_builder b;
  describe(&b);
  expect(&b, *state, -EINVAL, "bert.attention.layer_norm_epsilon is missing");
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  expect(&b, *state, 0, "");
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  gguf_tensor(&b, "cls.output.weight", 0, 1, 8, bytes, 32);
  expect(&b, *state, -ENOTSUP, "cross-encoders with a head of one layer are not");
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  gguf_tensor(&b, "cls.weight", 0, 2, 8, bytes, 64);
  gguf_tensor(&b, "cls.output.weight", 0, 2, 8, bytes, 64);
  expect(&b, *state, 0, "");
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  gguf_append(gguf_key(&b, "bert.attention.causal", LLS_GGUF_BOOL), "\1", 1);
  expect(&b, *state, -ENOTSUP, "bert.attention.causal is true");
}

static bool head_reads_the_mean(const char *relative)
{
  struct lls_model_config c;
  struct lls_error err = {0};
  if (lls_model_config_read(source_path(relative), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(c.labels, 1);
  return c.classifier.mean;
}

/* A key of the file names the rows that ModernBERT's head reads; older files lack the
 * key, and their heads read the mean. */
static void test_what_a_head_reads(void **state)
{
  struct gguf_builder b;
  assert_true(head_reads_the_mean("t/data/encoder/modernbert-pair.gguf"));
  assert_false(head_reads_the_mean("t/data/encoder/modernbert-cls-pair.gguf"));
  assert_false(head_reads_the_mean("t/data/encoder/modernbert-cls-pair"));
  b = (struct gguf_builder){0};
  gguf_text(&b, "general.architecture", "modern-bert");
  gguf_number(&b, "modern-bert.block_count", 1);
  gguf_number(&b, "modern-bert.embedding_length", 8);
  gguf_number(&b, "modern-bert.feed_forward_length", 8);
  gguf_number(&b, "modern-bert.attention.head_count", 2);
  gguf_number(&b, "modern-bert.context_length", 16);
  gguf_number(&b, "modern-bert.attention.sliding_window", 8);
  gguf_real(&b, "modern-bert.attention.layer_norm_epsilon", 1e-5F);
  gguf_real(&b, "modern-bert.rope.freq_base", 1e4F);
  gguf_real(&b, "modern-bert.rope.freq_base_swa", 1e4F);
  gguf_number(&b, "modern-bert.classifier.pooling_type", 3);
  gguf_tensor(&b, "token_embd.weight", 0, 2, 8, bytes, 64);
  gguf_tensor(&b, "cls.weight", 0, 2, 8, bytes, 64);
  gguf_tensor(&b, "cls.output.weight", 0, 2, 8, bytes, 64);
  expect(&b, *state, -ENOTSUP, "classifier.pooling_type is 3: 1 (mean) and 2 (cls)");
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  gguf_number(&b, "bert.classifier.pooling_type", 1);
  expect(&b, *state, -ENOTSUP, "bert.classifier.pooling_type is 1 in the metadata");
}

static enum lls_pooling pooling_of(const struct folder *folder, int type)
{
  struct gguf_builder b;
  struct lls_pooling_config p;
  struct lls_error err = {0};
  describe(&b);
  gguf_real(&b, "bert.attention.layer_norm_epsilon", 1e-12F);
  if (type >= 0)
    gguf_number(&b, "bert.pooling_type", (uint32_t)type);
  end(&b, folder);
  if (lls_pooling_read(path_of(folder, FILE_NAME), LLS_POOLING_MEAN, &p, &err) != 0)
    fail_msg("%s", err.text);
  return p.pooling;
}

static void test_pooling(void **state)
{
  assert_int_equal(pooling_of(*state, -1), LLS_POOLING_MEAN);
  assert_int_equal(pooling_of(*state, 0), LLS_POOLING_NONE);
  assert_int_equal(pooling_of(*state, 1), LLS_POOLING_MEAN);
  assert_int_equal(pooling_of(*state, 2), LLS_POOLING_CLS);
  assert_int_equal(pooling_of(*state, 3), LLS_POOLING_LAST);
  assert_int_equal(pooling_of(*state, 4), LLS_POOLING_NONE);
}

/* ---- tokens ------------------------------------------------------------------------ */

static const char *const pieces[] = {"[UNK]",   "[CLS]", "[SEP]",
                                     "\u2581a", "b",     "\u2581B"};

static const char *write_tokenizer(const struct folder *folder, size_t n, bool cased)
{
  static const uint32_t types[] = {3, 3, 3, 1, 1, 1};
  struct gguf_builder b;
  describe(&b);
  gguf_text(&b, "tokenizer.ggml.model", "bert");
  struct gguf_part *p = gguf_list(&b, "tokenizer.ggml.tokens", LLS_GGUF_STRING, n);
  for (size_t i = 0; i < n; i++)
    gguf_append_text(p, pieces[i]);
  gguf_append(gguf_list(&b, "tokenizer.ggml.token_type", LLS_GGUF_I32, n), types,
              n * sizeof types[0]);
  if (cased)
    gguf_append(gguf_key(&b, "tokenizer.ggml.normalizer.lowercase", LLS_GGUF_BOOL), "\0",
                1);
  end(&b, folder);
  return path_of(folder, FILE_NAME);
}

static void check_ids(const char *path, const char *text, const int32_t *wanted, size_t n)
{
  struct lls_error err = {0};
  struct lls_tokenizer *t;
  int32_t *ids;
  size_t count;
  if (lls_model_tokenizer(path, &t, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(lls_tokenizer_encode(t, text, strlen(text), true, &ids, &count, &err),
                   0);
  assert_int_equal(count, n);
  assert_memory_equal(ids, wanted, n * sizeof *ids);
  free(ids);
  lls_tokenizer_free(t);
}

static void test_words_are_cut_into_pieces(void **state)
{
  static const int32_t lower[] = {1, 3, 4, 4, 0, 2}, as_is[] = {1, 0, 5, 2};
  struct lls_error err = {0};
  struct lls_tokenizer *t;
  check_ids(write_tokenizer(*state, 6, false), "ABB B", lower, 6);
  check_ids(write_tokenizer(*state, 6, true), "ABB B", as_is, 4);
  assert_int_equal(lls_model_tokenizer(write_tokenizer(*state, 2, false), &t, &err),
                   -EINVAL);
  assert_non_null(strstr(err.text, "[CLS] and [SEP] should be in the vocabulary"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors_are_those_of_the_folder),
      IN_FOLDER(test_what_is_refused),
      IN_FOLDER(test_what_a_head_reads),
      IN_FOLDER(test_pooling),
      IN_FOLDER(test_words_are_cut_into_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
