/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts in GGUF files: experts are counted, and their matrices stacked. */
#include "t/gguf_files.h"

/* Experts are counted, and their matrices of (2, 1) numbers stacked. */
static void begin_mixture(struct gguf_builder *b, const char *a, uint32_t experts,
                          uint32_t used)
{
  struct lls_model_config c = gguf_small_model();
  *b = (struct gguf_builder){0};
  gguf_describe(b, a, &c);
  gguf_number(b, gguf_own(a, "expert_count"), experts);
  gguf_number(b, gguf_own(a, "expert_used_count"), used);
  gguf_number(b, gguf_own(a, "expert_feed_forward_length"),
              strcmp(a, "llama") == 0 ? c.ffn : 2); /* Mixtral has one size */
  gguf_tensor(b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
}

static void expect_view(struct lls_checkpoint *c, const char *name, size_t rows,
                        size_t columns, const float *numbers)
{
  struct lls_tensor_view v;
  struct lls_error err = {0};
  if (lls_checkpoint_view(c, name, rows, columns, &v, &err) != 0)
    fail_msg("%s", err.text);
  assert_memory_equal(v.data, numbers, rows * columns * sizeof *numbers);
}

static void test_an_expert_is_a_part_of_a_stack(void **state)
{
  static const float stack[] = {0, 1, 2, 3, 4, 5};
  struct gguf_builder b;
  struct lls_tensor_view v;
  begin_mixture(&b, "gpt-oss", 3, 1);
  gguf_stack(&b, "blk.0.ffn_up_exps.weight", 0, (const uint64_t[]){3, 2, 1}, stack,
             sizeof stack);
  gguf_tensor(&b, "blk.0.ffn_up_exps.bias", 0, 3, 2, stack, sizeof stack);
  gguf_stack(&b, "blk.1.ffn_down_exps.weight", 0, (const uint64_t[]){3, 1, 2}, stack,
             sizeof stack);
  gguf_tensor(&b, "blk.1.attn_sinks.weight", 0, 0, 2, stack, 8);
  gguf_tensor(&b, "blk.1.ffn_gate_inp.weight", 0, 3, 2, stack, sizeof stack);
  end(&b, *state);
  struct lls_gguf *g = open_good(*state, FILE_NAME);
  struct lls_checkpoint *c = &g->base;
  expect_view(c, "model.layers.0.mlp.experts.2.up_proj.weight", 2, 1, stack + 4);
  expect_view(c, "model.layers.0.mlp.experts.1.up_proj.bias", 1, 2, stack + 2);
  expect_view(c, "model.layers.1.block_sparse_moe.experts.1.w2.weight", 1, 2, stack + 2);
  expect_view(c, "model.layers.1.self_attn.sinks", 1, 2, stack);
  expect_view(c, "model.layers.1.mlp.router.weight", 3, 2, stack);
  const char *const unknown[] = {"model.layers.0.mlp.experts.0.up_proj.extra.weight",
                                 "model.layers.0.mlp.experts.x.up_proj.weight",
                                 "model.layers.0.mlp.experts.0.weight",
                                 "model.layers.0.mlp.experts.gate_up_proj_blocks"};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
    assert_int_equal(lls_checkpoint_view(c, unknown[i], 2, 1, &v, NULL), -ENOENT);
  lls_gguf_close(g);
}

static void test_stacks_of_other_shapes_are_refused(void **state)
{
  static const struct {
    uint64_t sizes[3];
    const char *sentence;
  } cases[] = {
      {{3, 2, 1}, "has shape [3, 2, 1], but the file's metadata makes it [4, 2, 1]"},
      {{5, 2, 1}, "has shape [5, 2, 1], but the file's metadata makes it [4, 2, 1]"},
      {{4, 1, 2}, "has shape [4, 1, 2], but the file's metadata makes it [4, 2, 1]"},
      {{0, 2, 1}, "has shape [2, 1], but the file's metadata makes it [4, 2, 1]"},
  };
  struct lls_tensor_view v;
  const char *name = "model.layers.0.mlp.experts.%u.up_proj.weight";
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct gguf_builder b;
    struct lls_error err = {0};
    char expert[64];
    const uint64_t *n = cases[i].sizes;
    begin_mixture(&b, "qwen3moe", 4, 1);
    gguf_stack(&b, "blk.0.ffn_up_exps.weight", 0, n, bytes,
               (n[0] == 0 ? 1 : n[0]) * n[1] * n[2] * 4);
    end(&b, *state);
    struct lls_gguf *g = open_good(*state, FILE_NAME);
    snprintf(expert, sizeof expert, name, 3);
    assert_int_equal(lls_checkpoint_view(&g->base, expert, 2, 1, &v, &err), -EINVAL);
    if (strstr(err.text, cases[i].sentence) == NULL)
      fail_msg("\"%s\" should contain \"%s\"", err.text, cases[i].sentence);
    snprintf(expert, sizeof expert, name, 4);
    assert_int_equal(lls_checkpoint_view(&g->base, expert, 2, 1, &v, &err), -EINVAL);
    assert_non_null(strstr(err.text, "expert 4 of 4 does not exist"));
    lls_gguf_close(g);
  }
}

static void test_experts_are_counted(void **state)
{
  static const struct {
    const char *architecture;
    uint32_t experts, used;
    int code;
    const char *sentence;
  } cases[] = {
      {"qwen3moe", 0, 2, -EINVAL, "qwen3moe.expert_count should be how many experts"},
      {"gpt-oss", 0, 2, -EINVAL, "gpt-oss.expert_count should be how many experts"},
      {"llama", 0, 2, -EINVAL, "llama.expert_count should be how many experts"},
      {"llama", 4, 0, -EINVAL, "llama.expert_used_count should be 1 to 4"},
      {"llama", 4, 5, -EINVAL, "llama.expert_used_count should be 1 to 4"},
      {"llama", UINT32_MAX, 2, -EINVAL, "\"num_local_experts\" should be"},
      {"llama", 1 << 20, 2, -EINVAL, "2 of 1048576 experts a row: at most"},
      {"qwen3", 4, 2, -ENOTSUP, "a mixture of experts of architecture qwen3 is not"},
  };
  struct lls_model_config c;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct gguf_builder b;
    struct lls_error err = {0};
    begin_mixture(&b, cases[i].architecture, cases[i].experts, cases[i].used);
    gguf_stack(&b, "blk.0.ffn_gate_exps.weight", 0, (const uint64_t[]){4, 2, 1}, bytes,
               32);
    end(&b, *state);
    int rc = lls_model_config_read(path_of(*state, FILE_NAME), &c, &err);
    if (rc != cases[i].code || strstr(err.text, cases[i].sentence) == NULL)
      fail_msg("%d and \"%s\" should be %d and contain \"%s\"", rc, err.text,
               cases[i].code, cases[i].sentence);
  }
}

static void expect_same_mixture(const struct folder *folder, const char *model)
{
  struct lls_model_config c, want;
  struct lls_error err = {0};
  char relative[64];
  gguf_convert(model, folder, FILE_NAME);
  snprintf(relative, sizeof relative, "t/data/models/%s", model);
  assert_int_equal(lls_model_config_read(source_path(relative), &want, NULL), 0);
  if (lls_model_config_read(path_of(folder, FILE_NAME), &c, &err) != 0)
    fail_msg("%s", err.text);
  assert_ptr_equal(c.architecture, want.architecture);
  assert_memory_equal(&c.mixture, &want.mixture, sizeof c.mixture);
  assert_memory_equal(c.layer, want.layer, want.layers * sizeof c.layer[0]);
  assert_int_equal(c.rope.scaling, want.rope.scaling);
  assert_float_equal(c.rope.factor, want.rope.factor, 0);
  assert_int_equal(c.rope.original_context, want.rope.original_context);
  assert_int_equal(c.rope.truncate, want.rope.truncate);
  assert_int_equal(c.attention_sinks, want.attention_sinks);
}

static void test_mixtures_are_what_their_folders_are(void **state)
{
  expect_same_mixture(*state, "mixtral");
  expect_same_mixture(*state, "qwen3-moe");
  expect_same_mixture(*state, "gpt-oss");
}

/* Half the rotated dimensions need one each. */
static void test_rope_factors_for_every_pair(void **state)
{
  static const float ones[] = {1, 1, 1, 1};
  for (size_t n = 1; n <= 4; n++) {
    struct gguf_builder b;
    struct lls_model_config c;
    struct lls_error err = {0};
    begin_mixture(&b, "llama", 4, 1);
    gguf_tensor(&b, "rope_freqs.weight", 0, 0, n, ones, n * sizeof *ones);
    end(&b, *state);
    int rc = lls_model_config_read(path_of(*state, FILE_NAME), &c, &err);
    assert_int_equal(rc, n == 2 ? 0 : -EINVAL);
    if (rc != 0)
      assert_non_null(strstr(err.text, "should have 2 numbers, one for each pair"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_an_expert_is_a_part_of_a_stack),
      IN_FOLDER(test_stacks_of_other_shapes_are_refused),
      IN_FOLDER(test_experts_are_counted),
      IN_FOLDER(test_mixtures_are_what_their_folders_are),
      IN_FOLDER(test_rope_factors_for_every_pair),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
