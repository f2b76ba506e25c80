/* SPDX-License-Identifier: Apache-2.0 */
/* Every key that changes the graph, in old and new spelling, and every refusal. */
#include "t/folder.h"

#include "core/model/model_config.h"

#include <errno.h>
#include <math.h>

#define SIZES                                                                            \
  "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":8,"                \
  "\"vocab_size\":100,\"max_position_embeddings\":512,"
#define LLAMA(more)                                                                      \
  "{\"architectures\":[\"LlamaForCausalLM\"],\"intermediate_size\":96," SIZES more       \
  "\"model_type\":\"llama\"}"
#define MODEL(name, more)                                                                \
  "{\"architectures\":[\"" name "ForCausalLM\"],\"intermediate_size\":96," SIZES more "}"
#define MISTRAL(more)                                                                    \
  "{\"architectures\":[\"MistralForCausalLM\"],\"intermediate_size\":96," SIZES more     \
  "\"model_type\":\"mistral\"}"
#define OPT(more)                                                                        \
  "{\"architectures\":[\"OPTForCausalLM\"],\"ffn_dim\":96," SIZES more                   \
  "\"model_type\":\"opt\"}"
#define NEOX(more)                                                                       \
  "{\"architectures\":[\"GPTNeoXForCausalLM\"],\"intermediate_size\":96," SIZES more     \
  "\"model_type\":\"gpt_neox\"}"

static struct lls_model_config read_good(void **state, const char *text)
{
  struct folder *folder = *state;
  struct lls_model_config config;
  struct lls_error err = {0};
  folder_write_text(folder, "config.json", text);
  int rc = lls_model_config_read(folder->path, &config, &err);
  if (rc != 0)
    fail_msg("%s", lls_error_text(&err, rc));
  return config;
}

static void expect_refusal(void **state, const char *text, int code, const char *sentence)
{
  struct folder *folder = *state;
  struct lls_model_config config;
  struct lls_error err = {0};
  folder_write_text(folder, "config.json", text);
  assert_int_equal(lls_model_config_read(folder->path, &config, &err), code);
  if (strstr(err.text, sentence) == NULL)
    fail_msg("\"%s\" should contain \"%s\"", err.text, sentence);
}

static void test_llama_defaults(void **state)
{
  struct lls_model_config c = read_good(state, LLAMA(""));
  assert_int_equal(c.kv_heads, 8);
  assert_int_equal(c.head_dim, 8);
  assert_int_equal(c.ffn, 96);
  assert_int_equal(c.embed_dim, 64);
  assert_int_equal(c.norm, LLS_NORM_RMS);
  assert_true(c.gated && c.final_norm && c.norm_affine);
  assert_false(c.norm_place != LLS_NORM_INPUT || c.parallel_residual || c.qkv_bias ||
               c.mlp_bias);
  assert_false(c.tied_embeddings);
  assert_int_equal(c.activation, LLS_ACT_SILU);
  assert_float_equal(c.norm_epsilon, 1e-6, 1e-12);
  assert_int_equal(c.rope.dims, 8);
  assert_float_equal(c.rope.theta, 10000, 0);
  assert_int_equal(c.layer[0].window, 0);
  assert_int_equal(c.dtype, LLS_F32);
  assert_int_equal(c.bos, -1);
  assert_int_equal(c.n_eos, 0);
}

static void test_llama_keys(void **state)
{
  struct lls_model_config c = read_good(
      state,
      LLAMA("\"num_key_value_heads\":2,\"head_dim\":16,\"torch_dtype\":\"bfloat16\","
            "\"attention_bias\":true,\"mlp_bias\":true,\"rope_theta\":5e5,"
            "\"tie_word_embeddings\":true,\"bos_token_id\":1,\"eos_token_id\":2,"
            "\"sliding_window\":512,"));
  assert_int_equal(c.kv_heads, 2);
  assert_int_equal(c.head_dim, 16);
  assert_int_equal(lls_qkv_columns(&c, 0), (8 + 2 * 2) * 16);
  assert_int_equal(c.dtype, LLS_BF16);
  assert_true(c.qkv_bias && c.output_bias && c.mlp_bias && c.tied_embeddings);
  assert_float_equal(c.rope.theta, 5e5, 0);
  assert_int_equal(c.layer[0].window, 0); /* one of the whole context is none */
  assert_int_equal(c.bos, 1);
  assert_int_equal(c.n_eos, 1);
  assert_int_equal(c.eos[0], 2);
}

static void test_null_is_absent(void **state)
{
  struct lls_model_config c = read_good(
      state,
      LLAMA("\"num_key_value_heads\":null,\"head_dim\":null,\"rope_scaling\":null,"));
  assert_int_equal(c.kv_heads, 8);
  assert_int_equal(c.head_dim, 8);
  assert_int_equal(c.rope.scaling, LLS_ROPE_PLAIN);
}

static void test_yi_is_llama(void **state)
{
  struct lls_model_config llama = read_good(state, LLAMA(""));
  struct lls_model_config yi = read_good(
      state, "{\"architectures\":[\"YiForCausalLM\"],\"intermediate_size\":96," SIZES
             "\"model_type\":\"Yi\"}");
  assert_memory_equal(&llama, &yi, sizeof yi);
}

static void test_mistral_window(void **state)
{
  assert_int_equal(read_good(state, MISTRAL("")).layer[0].window, 4096);
  assert_int_equal(read_good(state, MISTRAL("\"sliding_window\":null,")).layer[0].window,
                   0);
  assert_int_equal(read_good(state, MISTRAL("\"sliding_window\":16,")).layer[0].window,
                   16);
}

#define LLAMA3                                                                           \
  "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"                    \
  "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":256"

static void test_rope_in_old_and_new_spelling(void **state)
{
  struct lls_model_config old =
      read_good(state, LLAMA("\"rope_theta\":5e5,\"rope_scaling\":" LLAMA3 "},"));
  struct lls_model_config new =
      read_good(state, LLAMA("\"rope_parameters\":" LLAMA3 ",\"rope_theta\":5e5},"));
  assert_int_equal(old.rope.scaling, LLS_ROPE_LLAMA3);
  assert_int_equal(old.rope.original_context, 256);
  assert_memory_equal(&old.rope, &new.rope, sizeof old.rope);

  old = read_good(state, LLAMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"));
  assert_int_equal(old.rope.scaling, LLS_ROPE_LINEAR);
  assert_float_equal(old.rope.factor, 2, 0);
}

/* Short wavelengths stay, long ones are stretched by the factor, those between are
 * interpolated. */
static void test_rope_frequencies(void **state)
{
  struct lls_rope_config rope =
      read_good(state, LLAMA("\"head_dim\":64,\"rope_scaling\":" LLAMA3 "},")).rope;
  struct lls_rope_config plain = rope;
  plain.scaling = LLS_ROPE_PLAIN;
  float scaled[32], unscaled[32];
  lls_rope_frequencies(&rope, 0, scaled);
  lls_rope_frequencies(&plain, 0, unscaled);
  assert_float_equal(unscaled[0], 1, 0);
  assert_float_equal(unscaled[16], 0.01, 1e-9);
  for (int i = 0; i < 32; i++) {
    double waves = 256 * (double)unscaled[i] / (2 * M_PI), kept = (waves - 1) / 3;
    kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    assert_float_equal(scaled[i] / unscaled[i], kept + (1 - kept) / 8, 1e-6);
  }
  rope.scaling = LLS_ROPE_LINEAR;
  lls_rope_frequencies(&rope, 0, scaled);
  for (int i = 0; i < 32; i++)
    assert_float_equal(scaled[i] / unscaled[i], 1.0 / 8, 1e-6);
}

static void test_opt(void **state)
{
  struct lls_model_config c = read_good(state, OPT(""));
  assert_int_equal(c.norm, LLS_NORM_LAYER);
  assert_int_equal(c.activation, LLS_ACT_RELU);
  assert_int_equal(c.rope.dims, 0);
  assert_int_equal(c.position_offset, 2);
  assert_true(c.final_norm && c.norm_affine && c.qkv_bias && c.output_bias && c.mlp_bias);
  assert_true(c.tied_embeddings);
  assert_false(c.norm_place != LLS_NORM_INPUT || c.gated);

  c = read_good(state, OPT("\"do_layer_norm_before\":false,\"word_embed_proj_dim\":32,"
                           "\"enable_bias\":false,"));
  assert_true(c.norm_place == LLS_NORM_SUM);
  assert_false(c.final_norm || c.qkv_bias || c.output_bias || c.mlp_bias);
  assert_int_equal(c.embed_dim, 32);
  assert_false(read_good(state, OPT("\"_remove_final_layer_norm\":true,")).final_norm);
  assert_false(
      read_good(state, OPT("\"layer_norm_elementwise_affine\":false,")).norm_affine);
}

/* transformers 5 calls their number what Mixtral's folders call it. */
static void test_experts_in_old_and_new_spelling(void **state)
{
  assert_int_equal(
      read_good(state, MODEL("Qwen3Moe", "\"num_experts\":8")).mixture.experts, 8);
  assert_int_equal(
      read_good(state, MODEL("Qwen3Moe", "\"num_local_experts\":8")).mixture.experts, 8);
}

static void test_neox(void **state)
{
  struct lls_model_config c = read_good(state, NEOX(""));
  assert_int_equal(c.rope.dims, 2);
  assert_int_equal(c.activation, LLS_ACT_GELU);
  assert_true(c.parallel_residual && c.qkv_bias && c.output_bias && c.mlp_bias);
  assert_false(c.tied_embeddings || c.gated);

  c = read_good(state, NEOX("\"rotary_pct\":0.5,\"rotary_emb_base\":100,"
                            "\"use_parallel_residual\":false,\"attention_bias\":false,"
                            "\"hidden_act\":\"gelu_fast\","));
  assert_int_equal(c.rope.dims, 4);
  assert_float_equal(c.rope.theta, 100, 0);
  assert_int_equal(c.activation, LLS_ACT_GELU_TANH);
  assert_false(c.parallel_residual || c.qkv_bias || c.output_bias);
  assert_true(c.mlp_bias);

  c = read_good(state, NEOX("\"rope_parameters\":{\"rope_type\":\"default\","
                            "\"rope_theta\":100,\"partial_rotary_factor\":0.5},"));
  assert_int_equal(c.rope.dims, 4);
  assert_float_equal(c.rope.theta, 100, 0);
}

static void test_eos_is_the_union(void **state)
{
  folder_write_text(*state, "generation_config.json", "{\"eos_token_id\":[2,7,9]}");
  struct lls_model_config c = read_good(state, LLAMA("\"eos_token_id\":[5,2],"));
  assert_int_equal(c.n_eos, 4);
  assert_int_equal(c.eos[0], 5);
  assert_int_equal(c.eos[1], 2);
  assert_int_equal(c.eos[3], 9);
  folder_write_text(*state, "generation_config.json", "{\"eos_token_id\":[2,100]}");
  expect_refusal(state, LLAMA(""), -EINVAL, "is 100 but the vocabulary has 100 tokens");
}

static void test_sampling_defaults(void **state)
{
  struct lls_model_config c = read_good(state, LLAMA(""));
  assert_float_equal(c.sampling.temperature, 1, 0);
  assert_float_equal(c.sampling.top_k, 0, 0);
  folder_write_text(*state, "generation_config.json",
                    "{\"temperature\":0.5,\"top_p\":0.25,\"top_k\":40}");
  c = read_good(state, LLAMA(""));
  assert_float_equal(c.sampling.temperature, 0.5, 0);
  assert_float_equal(c.sampling.top_p, 0.25, 0);
  assert_float_equal(c.sampling.top_k, 40, 0);
  assert_float_equal(c.sampling.repetition_penalty, 1, 0);
  folder_write_text(*state, "generation_config.json", "{\"top_p\":2}");
  expect_refusal(state, LLAMA(""), -EINVAL, "\"top_p\" is 2, not from 0 to 1");
}

static void test_refusals(void **state)
{
  static const struct {
    const char *text;
    int code;
    const char *sentence;
  } cases[] = {
      {"{", -EINVAL, "config.json:1: not valid JSON"},
      {"[1]", -EINVAL, "should hold one JSON object"},
      {"{}", -EINVAL, "\"architectures\" should be a list"},
      {"{\"architectures\":[\"T5Model\"]}", -ENOTSUP,
       "architecture T5Model is not supported; the table of models in README"},
      {LLAMA("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},"), -ENOTSUP,
       "rope scaling \"dynamic\" is not supported"},
      {LLAMA("\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1],"
             "\"long_factor\":[1,1,1]},"),
       -EINVAL, "should have 4 numbers"},
      {LLAMA("\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1],"
             "\"long_factor\":[1,1,1,1]},"),
       -EINVAL, "should have 4 numbers"},
      {MODEL("Mixtral", "\"num_local_experts\":2,\"num_experts_per_tok\":3"), -EINVAL,
       "3 of 2 experts a row"},
      {MODEL("GptOss", "\"swiglu_limit\":5"), -ENOTSUP, "\"swiglu_limit\" is 5; 7 is"},
      {MODEL("Gemma2", "\"layer_types\":[\"full_attention\",\"chunked\"]"), -ENOTSUP,
       "\"layer_types\" has \"chunked\""},
      {MODEL("Gemma3", "\"layer_types\":[]"), -EINVAL, "should be a list of 2 names"},
      {MODEL("SmolLM3", "\"no_rope_layers\":[1]"), -EINVAL,
       "should be a list of 2 numbers"},
      {LLAMA("\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,0,1,1]},"),
       -EINVAL, "\"short_factor\" should be 1 to 128 positive numbers"},
      {LLAMA("\"rope_scaling\":{\"type\":\"linear\"},"), -EINVAL, "\"factor\" of rope"},
      {LLAMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5},"), -EINVAL,
       "\"factor\" of rope scaling should be 1 or more"},
      {LLAMA("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
             "\"original_max_position_embeddings\":64,\"low_freq_factor\":5},"),
       -EINVAL, "should be positive and not above"},
      {LLAMA("\"rope_scaling\":[2],"), -EINVAL, "\"rope_scaling\" should be an object"},
      {LLAMA("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8},"), -EINVAL,
       "\"original_max_position_embeddings\" is missing"},
      {LLAMA("\"rope_theta\":0,"), -EINVAL, "theta should be 1 or more"},
      {LLAMA("\"num_key_value_heads\":3,"), -EINVAL, "cannot share 3 key-value heads"},
      {LLAMA("\"num_key_value_heads\":0,"), -EINVAL, "a whole number of 1 or more"},
      {LLAMA("\"head_dim\":7,"), -EINVAL, "7 of 7 dimensions"},
      {LLAMA("\"head_dim\":1000000,"), -EINVAL, "no model has 1000000 as head size"},
      {LLAMA("\"hidden_act\":\"mish\","), -ENOTSUP, "\"hidden_act\" is \"mish\""},
      {LLAMA("\"attention_bias\":1,"), -EINVAL, "should be true or false"},
      {LLAMA("\"rms_norm_eps\":0,"), -EINVAL, "epsilon"},
      {LLAMA("\"rms_norm_eps\":\"x\","), -EINVAL, "should be a number"},
      {LLAMA("\"torch_dtype\":\"int8\","), -ENOTSUP, "\"torch_dtype\" is \"int8\""},
      {LLAMA("\"dtype\":\"float64\","), -ENOTSUP, "\"dtype\" is \"float64\""},
      {LLAMA("\"quantization_config\":{},"), -ENOTSUP, "quant_method \"none\""},
      {LLAMA("\"eos_token_id\":\"x\","), -EINVAL, "should be a token id"},
      {LLAMA("\"eos_token_id\":100,"), -EINVAL, "the vocabulary has 100 tokens"},
      {NEOX("\"rotary_pct\":0.1,"), -EINVAL, "no dimension of a head of 8"},
      {NEOX("\"rotary_pct\":2,"), -EINVAL, "between 0 and 1"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64}", -EINVAL,
       "\"num_hidden_layers\" is missing"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,"
       "\"num_hidden_layers\":2,\"num_attention_heads\":7,\"vocab_size\":9,"
       "\"max_position_embeddings\":9,\"intermediate_size\":9}",
       -EINVAL, "64 cannot be divided among 7 heads"},
      {"{\"architectures\":[\"OPTForCausalLM\"],\"hidden_size\":64.5}", -EINVAL,
       "\"hidden_size\" should be a whole number"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    expect_refusal(state, cases[i].text, cases[i].code, cases[i].sentence);
}

/* A layer may have sizes of its own. */
#define MIMO(more)                                                                       \
  MODEL("MiMoV2Flash", "\"num_key_value_heads\":2,\"v_head_dim\":8,\"head_dim\":8,"      \
                       "\"hybrid_layer_pattern\":[0,1],\"n_routed_experts\":66,"         \
                       "\"num_experts_per_tok\":1,\"moe_intermediate_size\":16,"         \
                       "\"partial_rotary_factor\":0.5," more)
#define GEMMA4(more)                                                                     \
  MODEL("Gemma4", "\"layer_types\":[\"sliding_attention\",\"full_attention\"],"          \
                  "\"num_key_value_heads\":2,\"head_dim\":8," more)
#define LATENT(more)                                                                     \
  MODEL("DeepseekV3", "\"qk_rope_head_dim\":8,\"n_routed_experts\":4,"                   \
                      "\"num_experts_per_tok\":1,\"moe_intermediate_size\":16," more)

static void test_sizes_of_layers(void **state)
{
  static const struct {
    const char *text;
    int code;
    const char *sentence;
  } cases[] = {
      {MIMO("\"swa_num_key_value_heads\":3"), -EINVAL,
       "8 attention heads cannot share 3 key-value heads of layer 1"},
      {MIMO("\"swa_num_key_value_heads\":2147483647"), -EINVAL,
       "cannot share 2147483647 key-value heads of layer 1"},
      {MIMO("\"n_group\":33"), -ENOTSUP, "33 groups of experts: at most 32"},
      {GEMMA4("\"per_layer_config\":{\"0\":{\"num_key_value_heads\":3}}"), -EINVAL,
       "cannot share 3 key-value heads of layer 0"},
      {GEMMA4("\"global_head_dim\":8192"), -EINVAL, "no model has 8192 as head size"},
      {GEMMA4("\"hidden_size_per_layer_input\":2147483647"), -EINVAL,
       "no model has 2147483647 as inputs of a layer"},
      {LATENT("\"kv_lora_rank\":16,\"qk_nope_head_dim\":536870904"), -EINVAL,
       "no model has 536870904 as unrotated size of a key"},
      {LATENT("\"kv_lora_rank\":16,\"qk_nope_head_dim\":576"), -EINVAL,
       "no model has 576 as unrotated size of a key, the most allowed is 512"},
      {LATENT("\"kv_lora_rank\":1024,\"qk_nope_head_dim\":8"), -EINVAL,
       "no model has 1024 as rank of a latent"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    expect_refusal(state, cases[i].text, cases[i].code, cases[i].sentence);
  assert_int_equal(
      read_good(state, MIMO("\"swa_num_key_value_heads\":4")).layer[1].kv_heads, 4);
}

static void test_no_model_folder(void **state)
{
  struct folder *folder = *state;
  struct lls_model_config config;
  struct lls_error err = {0};
  assert_int_equal(lls_model_config_read(folder->path, &config, &err), -ENOENT);
  assert_non_null(strstr(err.text, "no config.json there"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_llama_defaults),
      IN_FOLDER(test_llama_keys),
      IN_FOLDER(test_null_is_absent),
      IN_FOLDER(test_yi_is_llama),
      IN_FOLDER(test_mistral_window),
      IN_FOLDER(test_rope_in_old_and_new_spelling),
      IN_FOLDER(test_rope_frequencies),
      IN_FOLDER(test_opt),
      IN_FOLDER(test_experts_in_old_and_new_spelling),
      IN_FOLDER(test_neox),
      IN_FOLDER(test_eos_is_the_union),
      IN_FOLDER(test_sampling_defaults),
      IN_FOLDER(test_refusals),
      IN_FOLDER(test_sizes_of_layers),
      IN_FOLDER(test_no_model_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
