/* SPDX-License-Identifier: Apache-2.0 */
/* Good GGUF files are read correctly, and each kind of malformed file has its
 * message. */
#include "t/gguf_files.h"

#include "core/device/quantised.h"

/* ---- what is read --------------------------------------------------------------- */

static void test_tensors_go_by_the_names_of_folders(void **state)
{
  struct gguf_builder b;
  struct lls_tensor_view v;
  begin(&b);
  gguf_tensor(&b, "token_embd.weight", 30, 2, 3, bytes, 12);
  gguf_tensor(&b, "blk.7.attn_norm.weight", 0, 0, 2, bytes, 8);
  gguf_tensor(&b, "blk.0.ffn_up.weight", 8, 1, 64, bytes, 68);
  end(&b, *state);
  struct lls_gguf *g = open_good(*state, FILE_NAME);
  struct lls_checkpoint *c = &g->base;
  assert_true(lls_checkpoint_has(c, "model.embed_tokens.weight"));
  assert_true(lls_checkpoint_has(c, "embed_tokens.weight"));
  assert_false(lls_checkpoint_has(c, "lm_head.weight"));
  assert_false(lls_checkpoint_has(c, "something.else"));
  assert_int_equal(lls_checkpoint_view(c, "model.embed_tokens.weight", 2, 3, &v, NULL),
                   0);
  assert_int_equal(v.dtype, LLS_BF16);
  assert_memory_equal(v.data, bytes, 12);
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.7.input_layernorm.weight", 1, 2, &v, NULL), 0);
  assert_memory_equal(v.data, bytes, 8);
  lls_checkpoint_drop_pages(c);
  assert_memory_equal(v.data, bytes, 8);
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.0.mlp.up_proj.weight", 1, 64, &v, NULL), 0);
  assert_int_equal(v.dtype, LLS_Q8_0);
  lls_checkpoint_close(c);
}

static void test_views_are_checked(void **state)
{
  struct gguf_builder b;
  struct lls_tensor_view v;
  struct lls_error err = {0};
  begin(&b);
  gguf_tensor(&b, "token_embd.weight", 0, 2, 3, bytes, 24);
  end(&b, *state);
  struct lls_gguf *g = open_good(*state, FILE_NAME);
  assert_int_equal(
      lls_checkpoint_view(&g->base, "model.embed_tokens.weight", 3, 2, &v, &err),
      -EINVAL);
  assert_non_null(strstr(err.text, "tensor token_embd.weight has shape [2, 3], but the "
                                   "file's metadata makes it [3, 2]"));
  assert_int_equal(lls_checkpoint_view(&g->base, "model.norm.weight", 1, 2, &v, &err),
                   -ENOENT);
  assert_non_null(strstr(err.text, "tensor output_norm.weight is missing"));
  lls_gguf_close(g);
}

/* Four rows of a head, in the file as pairs (0, 2), (1, 3). */
static void test_pairs_of_rows_become_halves(void **state)
{
  static const float pairs[] = {0, 2, 1, 3, 4, 6, 5, 7};
  struct gguf_builder b;
  struct lls_tensor_view v;
  struct lls_error err = {0};
  begin(&b);
  gguf_number(&b, "llama.attention.head_count", 2);
  gguf_number(&b, "llama.attention.head_count_kv", 1);
  gguf_tensor(&b, "blk.0.attn_q.weight", 0, 8, 1, pairs, sizeof pairs);
  gguf_tensor(&b, "blk.0.attn_k.bias", 0, 0, 4, pairs, sizeof pairs / 2);
  gguf_tensor(&b, "blk.0.attn_v.weight", 0, 8, 1, pairs, sizeof pairs);
  gguf_tensor(&b, "blk.1.attn_q.weight", 0, 6, 1, pairs, 24);
  end(&b, *state);
  struct lls_gguf *g = open_good(*state, FILE_NAME);
  struct lls_checkpoint *c = &g->base;
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.0.self_attn.q_proj.weight", 8, 1, &v, NULL),
      0);
  for (size_t i = 0; i < 8; i++)
    assert_float_equal(((const float *)v.data)[i], (float)i, 0);
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.0.self_attn.k_proj.bias", 1, 4, &v, NULL), 0);
  for (size_t i = 0; i < 4; i++)
    assert_float_equal(((const float *)v.data)[i], (float)i, 0);
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.0.self_attn.v_proj.weight", 8, 1, &v, NULL),
      0);
  assert_memory_equal(v.data, pairs, sizeof pairs);
  assert_int_equal(
      lls_checkpoint_view(c, "model.layers.1.self_attn.q_proj.weight", 6, 1, &v, &err),
      -EINVAL);
  assert_non_null(strstr(err.text, "has 6 rows, which 2 heads cannot share in pairs"));
  lls_checkpoint_close(c);
}

/* Gemma's converter adds 1 to norms, which the model adds too, so it is subtracted
 * again; matrices are not changed. */
static void test_raised_norms_are_lowered(void **state)
{
  static const float raised[] = {1, 1.5F, 0.25F}, lowered[] = {0, 0.5F, -0.75F};
  struct gguf_builder b = {0};
  struct lls_tensor_view v;
  gguf_text(&b, "general.architecture", "gemma3");
  gguf_tensor(&b, "blk.0.post_ffw_norm.weight", 0, 0, 3, raised, sizeof raised);
  gguf_tensor(&b, "blk.0.attn_q.weight", 0, 1, 3, raised, sizeof raised);
  end(&b, *state);
  struct lls_gguf *g = open_good(*state, FILE_NAME);
  const char *norm = "model.layers.0.post_feedforward_layernorm.weight";
  assert_int_equal(lls_checkpoint_view(&g->base, norm, 1, 3, &v, NULL), 0);
  assert_memory_equal(v.data, lowered, sizeof lowered);
  const char *q = "model.layers.0.self_attn.q_proj.weight";
  assert_int_equal(lls_checkpoint_view(&g->base, q, 1, 3, &v, NULL), 0);
  assert_memory_equal(v.data, raised, sizeof raised);
  lls_gguf_close(g);
}

/* 44 * (30 / 44) is less than 30 in binary. */
static void test_a_part_of_an_odd_head_is_rotated(void **state)
{
  struct gguf_builder b = {0};
  struct lls_model_config c = gguf_small_model();
  struct lls_error err = {0};
  c.head_dim = 44;
  c.rope.dims = 30;
  gguf_describe(&b, "phi3", &c);
  gguf_tensor(&b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
  end(&b, *state);
  if (lls_model_config_read(path_of(*state, FILE_NAME), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(c.rope.dims, 30);
}

/* llama.cpp's converter writes a window of 0 for Phi-4, which has none. */
static void test_a_window_of_0_is_none(void **state)
{
  struct gguf_builder b = {0};
  struct lls_model_config c = gguf_small_model();
  struct lls_error err = {0};
  gguf_describe(&b, "phi3", &c);
  gguf_number(&b, "phi3.attention.sliding_window", 0);
  gguf_tensor(&b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
  end(&b, *state);
  if (lls_model_config_read(path_of(*state, FILE_NAME), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(c.layer[0].window, 0);
}

static void test_gemma_scales_and_caps(void **state)
{
  struct gguf_builder b = {0};
  struct lls_model_config c = gguf_small_model();
  struct lls_error err = {0};
  c.layers = 12;
  gguf_describe(&b, "gemma2", &c);
  gguf_number(&b, "gemma2.attention.sliding_window", 9);
  gguf_real(&b, "gemma2.attn_logit_softcapping", 50);
  gguf_real(&b, "gemma2.final_logit_softcapping", 30);
  gguf_tensor(&b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
  end(&b, *state);
  if (lls_model_config_read(path_of(*state, FILE_NAME), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_float_equal(c.attention_scale, 0.5, 1e-6);
  assert_float_equal(c.attention_cap, 50, 0);
  assert_float_equal(c.logit_cap, 30, 0);
  assert_float_equal(c.norm_offset, 1, 0);
  assert_int_equal(c.layer[0].window, 9);
  assert_int_equal(c.layer[1].window, 0);
}

static void test_metadata_is_a_configuration(void **state)
{
  struct lls_model_config c, want;
  struct lls_error err = {0};
  gguf_convert("llama", *state, FILE_NAME);
  int rc = lls_model_config_read(path_of(*state, FILE_NAME), &c, &err);
  if (rc != 0)
    fail_msg("%s", err.text);
  assert_int_equal(lls_model_config_read(source_path("t/data/models/llama"), &want, NULL),
                   0);
  assert_ptr_equal(c.architecture, want.architecture);
  assert_int_equal(c.layers, want.layers);
  assert_int_equal(c.vocab, want.vocab);
  assert_int_equal(c.head_dim, want.head_dim);
  assert_int_equal(c.kv_heads, want.kv_heads);
  assert_int_equal(c.dtype, LLS_F32);
  assert_int_equal(c.eos[0], want.eos[0]);
  assert_int_equal(c.n_eos, 1);
  assert_false(c.tied_embeddings);
}

/* A file names one token that ends answers; further ones are recognised by their
 * text. */
static void test_ends_and_sampling_of_answers(void **state)
{
  static const char *const tokens[] = {"a", "<|im_end|>", "<|endoftext|>", "<|eot_id|>"};
  static const uint32_t types[] = {1, 3, 3, 1}, ends[] = {0, 1, 2};
  struct gguf_builder b;
  struct lls_model_config c;
  struct lls_error err = {0};
  b = (struct gguf_builder){0};
  gguf_describe(&b, "llama",
                &(struct lls_model_config){.layers = 1,
                                           .hidden = 32,
                                           .ffn = 8,
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .head_dim = 4,
                                           .max_context = 8,
                                           .norm_epsilon = 1e-5F,
                                           .rope.theta = 1e4});
  struct gguf_part *p = gguf_list(&b, "tokenizer.ggml.tokens", LLS_GGUF_STRING, 4);
  for (size_t i = 0; i < 4; i++)
    gguf_append_text(p, tokens[i]);
  p = gguf_list(&b, "tokenizer.ggml.token_type", LLS_GGUF_I32, 4);
  gguf_append(p, types, sizeof types);
  gguf_real(&b, "general.sampling.temp", .5F);
  gguf_number(&b, "general.sampling.top_k", 20);
  gguf_tensor(&b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
  end(&b, *state);
  if (lls_model_config_read(path_of(*state, FILE_NAME), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(c.n_eos, 3);
  assert_memory_equal(c.eos, ends, sizeof ends);
  assert_float_equal(c.sampling.temperature, .5, 0);
  assert_int_equal(c.sampling.top_k, 20);
  assert_float_equal(c.sampling.top_p, 1, 0);
  assert_int_equal(c.dtype, LLS_Q8_0);
  assert_true(c.tied_embeddings);
}

/* ---- sets of files -------------------------------------------------------------- */

static void write_split(const struct folder *folder, const char *name, const char *tensor,
                        uint32_t number)
{
  struct gguf_builder b;
  begin(&b);
  gguf_number(&b, "split.no", number);
  gguf_number(&b, "split.count", 2);
  gguf_tensor(&b, tensor, 0, 2, 3, bytes + number, 24);
  gguf_write(&b, folder, name);
  gguf_free(&b);
}

static void test_split_sets(void **state)
{
  struct lls_tensor_view v;
  write_split(*state, "m-00001-of-00002.gguf", "token_embd.weight", 0);
  expect_refusal(*state, "m-00001-of-00002.gguf", -ENOENT, "m-00002-of-00002.gguf");
  write_split(*state, "m-00002-of-00002.gguf", "output.weight", 1);
  struct lls_gguf *g = open_good(*state, "m-00001-of-00002.gguf");
  assert_int_equal(lls_checkpoint_view(&g->base, "lm_head.weight", 2, 3, &v, NULL), 0);
  assert_memory_equal(v.data, bytes + 1, 24);
  lls_gguf_close(g);
  expect_refusal(*state, "m-00002-of-00002.gguf", -EINVAL,
                 "file 2 of a set of 2; name the first");
  write_split(*state, "m-00002-of-00002.gguf", "output.weight", 0);
  expect_refusal(*state, "m-00001-of-00002.gguf", -EINVAL, "its split.no is not 1");
  write_split(*state, "other.gguf", "token_embd.weight", 0);
  expect_refusal(*state, "other.gguf", -EINVAL,
                 "its name should end with -00001-of-00002.gguf");
}

/* ---- what is refused ------------------------------------------------------------ */

static void test_other_files_are_refused(void **state)
{
  struct gguf_builder b;
  folder_write_text(*state, FILE_NAME, "GIF89a, not a model");
  expect_refusal(*state, FILE_NAME, -EINVAL, "this is no GGUF file");
  folder_write_text(*state, FILE_NAME, "");
  expect_refusal(*state, FILE_NAME, -EINVAL, "empty");
  expect_refusal(*state, "none.gguf", -ENOENT, "cannot be opened");
  begin(&b);
  b.version = 1;
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -ENOTSUP, "GGUF of version 1; 2 and 3 can be read");
  begin(&b);
  b.version = 3u << 24;
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -ENOTSUP, "or a big-endian file");
  b = (struct gguf_builder){0};
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "general.architecture should name");
  gguf_text(&b, "general.architecture", "rwkv7");
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -ENOTSUP, "architecture rwkv7 is not supported");
}

static void test_lying_metadata_is_refused(void **state)
{
  struct gguf_builder b;
  begin(&b);
  gguf_list(&b, "numbers", LLS_GGUF_U64, UINT64_MAX / 8);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL,
                 "numbers claims 2305843009213693951 numbers");
  begin(&b);
  gguf_append_u64(gguf_key(&b, "text", LLS_GGUF_STRING), 1000);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "text claims a text of 1000 bytes");
  begin(&b);
  gguf_key(&b, "odd", 13);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "odd is of a type that is not known (13)");
  begin(&b);
  gguf_list(&b, "lists", LLS_GGUF_ARRAY, 1);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "an array of arrays");
  begin(&b);
  gguf_text(&b, "general.architecture", "llama");
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "general.architecture is there twice");
  begin(&b);
  gguf_number(&b, "", 1);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "a metadata key of 0 bytes is empty");
  begin(&b);
  gguf_number(&b, "general.alignment", 24);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL,
                 "general.alignment is 24, not a power of two");
}

static void test_lying_tensors_are_refused(void **state)
{
  static const struct {
    uint32_t type;
    uint64_t rows, columns;
    int code;
    const char *sentence;
  } cases[] = {
      {0, 2, 300, -EINVAL, "tensor a needs 2400 bytes from 0 on but the file has only"},
      {0, UINT64_MAX / 2, 3, -EINVAL, "more bytes than any file"},
      {0, 2, UINT64_MAX / 2, -EINVAL, "no whole blocks"},
      {8, 2, 33, -EINVAL, "rows of 33 numbers, which are no whole blocks of Q8_0"},
      {12, 2, 32, -EINVAL, "no whole blocks of Q4_K"},
      {15, 2, 256, -ENOTSUP, "tensor a is of type Q8_K (15), which cannot be used"},
      {10, 2, 320, -EINVAL, "rows of 320 numbers, which are no whole blocks of Q2_K"},
      {20, 2, 48, -EINVAL, "rows of 48 numbers, which are no whole blocks of IQ4_NL"},
      {16, 2, 32, -EINVAL, "rows of 32 numbers, which are no whole blocks of IQ2_XXS"},
      {4, 2, 32, -ENOTSUP, "of type unknown (4)"},
      {999, 2, 32, -ENOTSUP, "of type unknown (999)"},
  };
  struct gguf_builder b;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    begin(&b);
    gguf_tensor(&b, "a", cases[i].type, cases[i].rows, cases[i].columns, bytes, 24);
    end(&b, *state);
    expect_refusal(*state, FILE_NAME, cases[i].code, cases[i].sentence);
  }
  begin(&b);
  gguf_tensor(&b, "a", 0, 2, 3, bytes, 24);
  gguf_tensor(&b, "a", 0, 2, 3, bytes, 24);
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "tensor a is there twice");
  begin(&b);
  gguf_tensor(&b, "a", 0, 2, 3, bytes, 24);
  gguf_tensor(&b, "b", 0, 2, 3, bytes, 24);
  b.tensors.bytes[b.tensors.n - 8] = 0; /* its offset */
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL,
                 "tensor b is at byte 0 of the data, where 32");
  begin(&b);
  gguf_tensor(&b, "a", 0, 2, 3, bytes, 24);
  b.tensors.bytes[9] = 5; /* dimensions */
  end(&b, *state);
  expect_refusal(*state, FILE_NAME, -EINVAL, "tensor a has 5 dimensions, not 1 to 4");
}

/* A good file, truncated to every length. */
static void test_truncation_is_always_seen(void **state)
{
  struct gguf_builder b;
  begin(&b);
  gguf_tensor(&b, "token_embd.weight", 0, 2, 3, bytes, 24);
  struct gguf_part file = gguf_bytes(&b);
  for (size_t n = 1; n < file.n; n++) {
    struct lls_error err = {0};
    struct lls_gguf *g = NULL;
    folder_write(*state, FILE_NAME, file.bytes, n);
    assert_int_equal(lls_gguf_open(path_of(*state, FILE_NAME), &g, &err), -EINVAL);
    assert_non_null(strstr(err.text, ".gguf: "));
  }
  free(file.bytes);
  gguf_free(&b);
}

static void test_metadata_that_a_model_needs(void **state)
{
  struct gguf_builder b;
  struct lls_model_config c;
  struct lls_error err = {0};
  begin(&b);
  end(&b, *state);
  assert_int_equal(lls_model_config_read(path_of(*state, FILE_NAME), &c, &err), -EINVAL);
  assert_non_null(strstr(err.text, "llama.block_count is missing in the metadata"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_tensors_go_by_the_names_of_folders),
      IN_FOLDER(test_views_are_checked),
      IN_FOLDER(test_pairs_of_rows_become_halves),
      IN_FOLDER(test_raised_norms_are_lowered),
      IN_FOLDER(test_a_part_of_an_odd_head_is_rotated),
      IN_FOLDER(test_a_window_of_0_is_none),
      IN_FOLDER(test_gemma_scales_and_caps),
      IN_FOLDER(test_metadata_is_a_configuration),
      IN_FOLDER(test_ends_and_sampling_of_answers),
      IN_FOLDER(test_split_sets),
      IN_FOLDER(test_other_files_are_refused),
      IN_FOLDER(test_lying_metadata_is_refused),
      IN_FOLDER(test_lying_tensors_are_refused),
      IN_FOLDER(test_truncation_is_always_seen),
      IN_FOLDER(test_metadata_that_a_model_needs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
