/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of a model that are not read: those that transformers writes, and those of
 * published files, are accepted without effect; any other key is refused by its name.
 */
#include "t/gguf_files.h"

#include "core/base/json_parse.h"

/* ---- folders ---- */

static void expect_config(const struct folder *folder, const char *text, int code,
                          const char *sentence)
{
  struct lls_model_config c;
  struct lls_error err = {0};
  folder_write_text(folder, "config.json", text);
  int rc = lls_model_config_read(folder->path, &c, &err);
  if (rc != code || strstr(err.text, sentence) == NULL)
    fail_msg("%d and \"%s\" should be %d and contain \"%s\", of %.600s", rc, err.text,
             code, sentence, text);
}

static unsigned expect_lines(const struct folder *folder, const char *name)
{
  char *line = NULL;
  size_t size = 0;
  unsigned n = 0;
  FILE *file = fopen(source_path(name), "r");
  assert_non_null(file);
  for (; getline(&line, &size, file) > 0; n++)
    expect_config(folder, line, 0, "");
  free(line);
  fclose(file);
  return n;
}

static void test_all_that_transformers_writes_is_known(void **state)
{
  assert_int_equal(expect_lines(*state, "t/data/configs/saved.jsonl"), 47);
}

static void test_published_files_are_known(void **state)
{
  assert_int_equal(expect_lines(*state, "t/data/configs/published.jsonl"), 25);
}

#define HIDDEN "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":8,"
#define DECODER                                                                          \
  HIDDEN "\"num_hidden_layers\":4,\"vocab_size\":1000,\"max_position_embeddings\":512"
#define OF(name, more) "{\"architectures\":[\"" name "\"]," DECODER "," more "}"

static void test_keys_of_the_graph_are_refused(void **state)
{
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {OF("Qwen3ForCausalLM", "\"is_causal\":false"), "\"is_causal\" is false"},
      {OF("LlamaForCausalLM", "\"use_bidirectional_attention\":true"),
       "\"use_bidirectional_attention\" is true, which is not supported of Llama"},
      {OF("LlamaForCausalLM", "\"logit_scale\":0.0625"), "\"logit_scale\" is 0.0625"},
      {OF("LlamaForCausalLM", "\"sliding_window\":128"), "\"sliding_window\" is 128"},
      {OF("Olmo2ForCausalLM", "\"sliding_window\":128"), "\"sliding_window\" is 128"},
      {OF("LlamaForCausalLM", "\"embedding_multiplier\":12.0"),
       "\"embedding_multiplier\" is 12"},
      {OF("LlamaForCausalLM", "\"attention_multiplier\":0.015625"),
       "\"attention_multiplier\""},
      {OF("LlamaForCausalLM", "\"qk_layernorm\":true"), "\"qk_layernorm\" is true"},
      {OF("LlamaForCausalLM", "\"position_embedding_type\":\"alibi\""), "is \"alibi\""},
      {OF("LlamaForCausalLM", "\"clip_qkv\":8"), "\"clip_qkv\" is 8"},
      {OF("LlamaForCausalLM", "\"layer_types\":[\"full_attention\",\"conv\"]"),
       "\"layer_types\" is [\"full_attention\",\"conv\"]"},
      {OF("LlamaForCausalLM", "\"quantization\":{\"bits\":4}"), "\"quantization\" is"},
      {OF("Qwen2ForCausalLM", "\"dual_chunk_attention_config\":{\"chunk_size\":262144}"),
       "\"dual_chunk_attention_config\""},
      {OF("Qwen2ForCausalLM", "\"text_config\":{\"a\":1}"), "\"text_config\""},
      {OF("MixtralForCausalLM", "\"norm_topk_prob\":false"), "\"norm_topk_prob\""},
      {OF("MixtralForCausalLM", "\"shared_expert_intermediate_size\":64"),
       "\"shared_expert_intermediate_size\" is 64"},
      {OF("Qwen3MoeForCausalLM", "\"routed_scaling_factor\":2.5"),
       "\"routed_scaling_factor\" is 2.5"},
      {OF("Gemma3ForCausalLM", "\"final_logit_softcapping\":30.0"),
       "\"final_logit_softcapping\" is 30"},
      {OF("LlamaForCausalLM", "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0,"
                              "\"alpha\":4}"),
       "\"alpha\" is 4, which is not supported in \"rope_scaling\""},
      {OF("LlamaForCausalLM",
          "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},"
          "\"sliding_attention\":{\"rope_theta\":1e4}}"),
       "\"rope_parameters\""},
      {OF("Gemma3ForCausalLM",
          "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},"
          "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":8.0}}"),
       "layers that slide"},
      {OF("LlamaForCausalLM", "\"quantization_config\":{\"quant_method\":\"gptq\","
                              "\"bits\":4,\"rotation\":\"hadamard\"}"),
       "\"rotation\""},
      {OF("LlamaForCausalLM",
          "\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
          "\"int-quantized\",\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":8}}},"
          "\"transform_config\":{\"config_groups\":{\"R1\":{}}}}"),
       "\"transform_config\""},
      {OF("BertModel", "\"is_decoder\":true"), "\"is_decoder\" is true"},
      {OF("BertModel", "\"is_causal\":true"), "\"is_causal\" is true"},
      {OF("BertModel", "\"rope_theta\":1e4"), "\"rope_theta\" is 10000"},
      {OF("XLMRobertaModel", "\"use_rotary\":true"), "\"use_rotary\" is true"},
      {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":"
       "{" DECODER ",\"is_causal\":false}}",
       "\"is_causal\" is false"},
      {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"is_causal\":false,"
       "\"text_config\":{" DECODER "}}",
       "\"is_causal\" is false"},
      {"{\"architectures\":[\"GPTNeoXForCausalLM\"]," DECODER
       ",\"rope_theta\":5e4,\"rotary_emb_base\":1e4}",
       "\"rope_theta\" is 50000 but \"rotary_emb_base\" is 10000"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_config(*state, cases[i].text,
                  strstr(cases[i].text, "rotary_emb_base") != NULL ? -EINVAL : -ENOTSUP,
                  cases[i].sentence);
}

/* Keys that are disabled, concern something else, or repeat another key. */
static void test_other_keys_are_passed(void **state)
{
  static const char *const more[] = {
      "\"qk_layernorm\":false,\"clip_qkv\":null,\"attention_type\":\"\",\"extra\":{}",
      "\"_made_by\":{\"x\":1},\"unsloth_fixed\":true,\"my_version\":\"1.2\"",
      "\"hidden_act_dropout\":0.5,\"aux_loss_weight\":0.1,\"image_token_id\":7",
      "\"is_causal\":true,\"logit_scale\":1.0,\"logits_scaling\":1,\"n_shared_experts\":"
      "0",
      "\"sliding_window\":512,\"num_experts\":0,\"final_logit_softcapping\":0.0",
      "\"layer_types\":[\"full_attention\",\"full_attention\"],\"norm_topk_prob\":true",
      "\"model_max_length\":1000000000000000019884624838656,\"activation\":\"swiglu\"",
      "\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[1,1,2]}",
  };
  char text[1024];
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    snprintf(text, sizeof text, OF("LlamaForCausalLM", "%s"), more[i]);
    expect_config(*state, text, 0, "");
  }
}

/* ---- GGUF files ---- */

static void test_a_gguf_file_that_is_no_model(void **state)
{
  static const char *const types[] = {"adapter", "imatrix", "mmproj"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct gguf_builder b;
    begin(&b);
    gguf_text(&b, "general.type", types[i]);
    end(&b, *state);
    expect_refusal(*state, FILE_NAME, -ENOTSUP, types[i]);
  }
}

struct entry {
  const char *key;
  /* f: a real number, u: an integer, b: a boolean, p: a pattern of two booleans */
  char type;
  double value;
};

static void write_entry(struct gguf_builder *b, const char *a, const struct entry *e)
{
  const char *key = gguf_own(a, e->key);
  unsigned char on = e->value != 0;
  if (e->type == 'f')
    gguf_real(b, key, (float)e->value);
  else if (e->type == 'u')
    gguf_number(b, key, (uint32_t)e->value);
  else if (e->type == 'b')
    gguf_append(gguf_key(b, key, LLS_GGUF_BOOL), &on, 1);
  else {
    struct gguf_part *list = gguf_list(b, key, LLS_GGUF_BOOL, 2);
    gguf_append(list, &on, 1);
    gguf_append(list, "\0", 1);
  }
}

static void expect_gguf(const struct folder *folder, const char *a, const struct entry *e,
                        int code)
{
  struct gguf_builder b = {0};
  struct lls_model_config small = gguf_small_model(), c;
  struct lls_error err = {0};
  gguf_describe(&b, a, &small);
  write_entry(&b, a, e);
  gguf_tensor(&b, "token_embd.weight", 8, 4, 32, bytes, 4 * 34);
  end(&b, folder);
  int rc = lls_model_config_read(path_of(folder, FILE_NAME), &c, &err);
  if (rc != code || (rc < 0 && strstr(err.text, e->key) == NULL))
    fail_msg("%s.%s = %g: %d and \"%s\" should be %d and name it", a, e->key, e->value,
             rc, err.text, code);
}

static void test_metadata_of_the_graph_is_refused(void **state)
{
  static const struct {
    const char *a;
    struct entry entry;
  } cases[] = {
      {"qwen3", {"attention.causal", 'b', 0}},
      {"llama", {"attention.causal", 'b', 0}},
      {"llama", {"attention.scale", 'f', 0.25}},
      {"llama", {"logit_scale", 'f', 0.0625}},
      {"llama", {"residual_scale", 'f', 0.22}},
      {"llama", {"attention.sliding_window", 'u', 16}},
      {"qwen2", {"attention.sliding_window", 'u', 16}},
      {"qwen3", {"attention.sliding_window", 'u', 16}},
      {"smollm3", {"attention.sliding_window", 'u', 16}},
      {"olmo2", {"attention.sliding_window_pattern", 'p', 1}},
      {"olmo2", {"attention.sliding_window_pattern", 'u', 4}},
      {"olmo2", {"rope.freq_base_swa", 'f', 10000}},
      {"llama", {"attention.value_length", 'u', 8}},
      {"llama", {"attn_logit_softcapping", 'f', 50}},
      {"llama", {"nextn_predict_layers", 'u', 1}},
      {"llama", {"leading_dense_block_count", 'u', 1}},
      {"llama", {"expert_shared_count", 'u', 1}},
      {"llama", {"expert_gating_func", 'u', 2}},
      {"llama", {"rope.scaling.yarn_log_multiplier", 'f', 0.1}},
      {"llama", {"attention.temperature_scale", 'f', 0.1}},
      {"phi3", {"some.new.switch", 'b', 1}},
      {"qwen3", {"pooling_type", 'u', 4}}, /* a reranker's key */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_gguf(*state, cases[i].a, &cases[i].entry, -ENOTSUP);
}

static void test_metadata_that_changes_nothing_is_passed(void **state)
{
  static const struct {
    const char *a;
    struct entry entry;
  } cases[] = {
      {"llama", {"attention.causal", 'b', 1}},
      {"llama", {"attention.scale", 'f', 0.5}},
      {"llama", {"attention.scale", 'f', 0}},
      {"llama", {"attention.value_length", 'u', 4}},
      {"llama", {"attention.sliding_window", 'u', 64}},
      {"llama", {"attention.sliding_window", 'u', 0}},
      {"llama", {"vocab_size", 'u', 4}},
      {"llama", {"rope.scaling.finetuned", 'b', 1}},
      {"olmo2", {"attention.sliding_window_pattern", 'p', 0}},
      {"qwen3", {"pooling_type", 'u', 3}},
      {"gemma2", {"attention.sliding_window_pattern", 'p', 1}},
      {"gemma3", {"rope.freq_base_swa", 'f', 10000}},
      {"gemma3", {"attention.sliding_window_pattern", 'u', 2}},
      {"phi3", {"some.new.switch", 'b', 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_gguf(*state, cases[i].a, &cases[i].entry, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_all_that_transformers_writes_is_known),
      IN_FOLDER(test_published_files_are_known),
      IN_FOLDER(test_keys_of_the_graph_are_refused),
      IN_FOLDER(test_other_keys_are_passed),
      IN_FOLDER(test_a_gguf_file_that_is_no_model),
      IN_FOLDER(test_metadata_of_the_graph_is_refused),
      IN_FOLDER(test_metadata_that_changes_nothing_is_passed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
