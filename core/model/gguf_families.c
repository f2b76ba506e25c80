/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files of families that differ from Llama by names and switches: what
 * gguf_names.c, gguf_keys.c and gguf_config.c need to know of each.
 */
#include <math.h>
#include <stdio.h>

#include "core/model/gguf_gemma4.h"
#include "core/model/gguf_moe.h"

#define END                                                                              \
  {                                                                                      \
    NULL, NULL                                                                           \
  }

/* No switch of config.json depends on a tensor. */
static const struct lls_gguf_pair no_switches[] = {END};

static const struct lls_gguf_pair granite_keys[] = {
    {"attention_multiplier", "attention.scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
    END};

static const struct lls_gguf_pair ernie_switches[] = {{"use_bias", "ffn_up.bias"}, END};

static const struct lls_gguf_pair cohere_keys[] = {{"logit_scale", "logit_scale"}, END};

static const struct lls_gguf_pair seed_switches[] = {
    {"attention_bias", "attn_q.bias"}, {"attention_out_bias", "attn_output.bias"}, END};

static const struct lls_gguf_pair hunyuan_tensors[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    END};

static const struct lls_gguf_pair starcoder_tensors[] = {
    {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}, END};
static const struct lls_gguf_pair starcoder_keys[] = {
    {"norm_epsilon", "attention.layer_norm_epsilon"}, END};
static const struct lls_gguf_pair starcoder_switches[] = {{"use_bias", "ffn_up.bias"},
                                                          END};

static const struct lls_gguf_pair gpt2_tensors[] = {
    {"wte", "token_embd"},          {"wpe", "position_embd"},
    {"ln_f", "output_norm"},        {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},           {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},     END};
static const struct lls_gguf_pair gpt2_keys[] = {
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {"n_inner", "feed_forward_length"},
    END};

static const struct lls_gguf_pair phi_tensors[] = {{"final_layernorm", "output_norm"},
                                                   {"self_attn.dense", "attn_output"},
                                                   {"mlp.fc1", "ffn_up"},
                                                   {"mlp.fc2", "ffn_down"},
                                                   END};

static const struct lls_gguf_pair stablelm_keys[] = {
    {"use_parallel_residual", "use_parallel_residual"}, END};
static const struct lls_gguf_pair stablelm_switches[] = {
    {"use_qkv_bias", "attn_q.bias"}, {"qk_layernorm", "attn_q_norm.weight"}, END};

static const struct lls_gguf_pair falcon_tensors[] = {
    {"word_embeddings", "token_embd"},
    {"ln_f", "output_norm"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    {"ln_attn", "attn_norm_2"},
    {"ln_mlp", "attn_norm"},
    END};
static const struct lls_gguf_pair falcon_keys[] = {
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {"ffn_hidden_size", "feed_forward_length"},
    {"num_kv_heads", "attention.head_count_kv"},
    END};
static const struct lls_gguf_pair falcon_switches[] = {
    {"bias", "ffn_up.bias"}, {"new_decoder_architecture", "attn_norm_2.weight"}, END};

static const struct lls_gguf_pair glm4_tensors[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    END};

static const struct lls_gguf_pair apertus_tensors[] = {
    {"attention_layernorm", "attn_norm"}, {"feedforward_layernorm", "ffn_norm"}, END};
/* The lists of xIELU's parameters do not have the architecture's name before theirs. */
static void describe_apertus(const struct lls_gguf *g, json_t *config)
{
  static const struct lls_gguf_pair lists[] = {{"xielu_alpha_p", "xielu.alpha_p"},
                                               {"xielu_alpha_n", "xielu.alpha_n"},
                                               {"xielu_beta", "xielu.beta"}};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    json_t *list = NULL;
    struct lls_error ignored;
    if (lls_gguf_value(g->files[0], lists[i].file, &list, &ignored) == 0 && list != NULL)
      json_object_set_new(config, lists[i].folder, list);
  }
}

static const struct lls_gguf_pair bloom_tensors[] = {
    {"word_embeddings", "token_embd"},
    {"word_embeddings_layernorm", "token_embd_norm"},
    {"ln_f", "output_norm"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    END};

static const struct lls_gguf_pair mpt_tensors[] = {{"wte", "token_embd"},
                                                   {"norm_f", "output_norm"},
                                                   {"norm_1", "attn_norm"},
                                                   {"norm_2", "ffn_norm"},
                                                   {"attn.Wqkv", "attn_qkv"},
                                                   {"attn.out_proj", "attn_output"},
                                                   {"ffn.up_proj", "ffn_up"},
                                                   {"ffn.down_proj", "ffn_down"},
                                                   END};
static const struct lls_gguf_pair mpt_keys[] = {
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {"alibi_bias_max", "attention.max_alibi_bias"},
    END};

/* The largest exponent belongs into an object of its own; the width of the MLP is a
 * multiple of the hidden size. */
static void describe_mpt(const struct lls_gguf *g, json_t *config)
{
  json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
  json_int_t ffn = json_integer_value(json_object_get(config, "intermediate_size"));
  json_t *most = json_object_get(config, "alibi_bias_max");
  (void)g;
  if (most != NULL)
    json_object_set_new(config, "attn_config",
                        json_pack("{s:O}", "alibi_bias_max", most));
  json_object_del(config, "alibi_bias_max");
  if (hidden > 0 && ffn % hidden == 0)
    json_object_set_new(config, "expansion_ratio", json_integer(ffn / hidden));
  json_object_del(config, "intermediate_size");
}

static const struct lls_gguf_pair nemotron_keys[] = {
    {"norm_eps", "attention.layer_norm_epsilon"}, END};

static const struct lls_gguf_pair minicpm_keys[] = {{"scale_emb", "embedding_scale"},
                                                    {"residual_scale", "residual_scale"},
                                                    {"logit_scale", "logit_scale"},
                                                    END};

/* The file has the factors that the folder's keys make with sizes. */
static void describe_minicpm(const struct lls_gguf *g, json_t *config)
{
  double layers = json_number_value(json_object_get(config, "num_hidden_layers"));
  double hidden = json_number_value(json_object_get(config, "hidden_size"));
  double residual = json_number_value(json_object_get(config, "residual_scale"));
  double logits = json_number_value(json_object_get(config, "logit_scale"));
  (void)g;
  if (residual > 0)
    json_object_set_new(config, "scale_depth", json_real(residual * sqrt(layers)));
  if (logits > 0)
    json_object_set_new(config, "dim_model_base", json_real(hidden / logits));
  json_object_del(config, "residual_scale");
  json_object_del(config, "logit_scale");
}

static const struct lls_gguf_pair neox_tensors[] = {
    {"embed_in", "token_embd"},
    {"final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    END};
static const struct lls_gguf_pair neox_keys[] = {
    {"use_parallel_residual", "use_parallel_residual"},
    {"rotary_emb_base", "rope.freq_base"},
    END};
static const struct lls_gguf_pair neox_switches[] = {{"attention_bias", "attn_qkv.bias"},
                                                     END};

/* Moves the growth of queries into "rope_scaling". A file may repeat the original context
 * as the tokens after which a query grows; another number of tokens stays among the keys
 * and is refused as one of unknown meaning. */
static void move_growth(json_t *config)
{
  json_t *rope = json_object_get(config, "rope_scaling");
  json_t *beta = json_object_get(config, "llama_4_scaling_beta");
  json_t *original = json_object_get(rope, "original_max_position_embeddings");
  if (rope != NULL && beta != NULL)
    json_object_set(rope, "llama_4_scaling_beta", beta);
  json_object_del(config, "llama_4_scaling_beta");
  if (json_equal(json_object_get(config, "growth_every"), original))
    json_object_del(config, "growth_every");
}

/* Moves the growth of queries and the weights of YaRN's scale into "rope_scaling". */
static void describe_mistral(const struct lls_gguf *g, json_t *config)
{
  json_t *rope = json_object_get(config, "rope_scaling");
  json_t *weight = json_object_get(config, "mscale_all_dim");
  (void)g;
  move_growth(config);
  if (rope != NULL && json_number_value(weight) != 0) {
    json_object_set_new(rope, "mscale", json_real(1));
    json_object_set(rope, "mscale_all_dim", weight);
  }
  json_object_del(config, "mscale_all_dim");
}

static const struct lls_gguf_pair mistral_keys[] = {
    {"llama_4_scaling_beta", "attention.temperature_scale"},
    {"mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
    END};

/* ---- mixtures ---- */

static const struct lls_gguf_pair llama4_tensors[] = {
    LLS_GGUF_SHARED("feed_forward.shared_expert"),
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    END};
static const struct lls_gguf_pair llama4_keys[] = {
    {"intermediate_size_mlp", "feed_forward_length"},
    {"intermediate_size", "expert_feed_forward_length"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"attention_chunk_size", "attention.sliding_window"},
    {"floor_scale", "attention.temperature_length"},
    {"attn_scale", "attention.temperature_scale"},
    END};

/* Files do not say whether queries and keys are normed: llama.cpp does so but for 128
 * experts. A chunk of 0 tokens, by which llama.cpp has other layers rotate, is refused.
 */
static void describe_llama4(const struct lls_gguf *g, json_t *config)
{
  json_int_t experts = json_integer_value(json_object_get(config, "num_experts"));
  (void)g;
  json_object_set_new(config, "use_qk_norm", json_boolean(experts != 128));
  if (json_is_null(json_object_get(config, "attention_chunk_size")))
    json_object_set_new(config, "attention_chunk_size", json_integer(0));
}

/* ---- latent attention ---- */

#define LATENT_TENSORS                                                                   \
  {"self_attn.q_a_proj", "attn_q_a"}, {"self_attn.q_a_layernorm", "attn_q_a_norm"},      \
      {"self_attn.q_b_proj", "attn_q_b"},                                                \
      {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},                                 \
      {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},                                    \
      {"self_attn.kv_b_proj", "attn_kv_b"}, {"self_attn.k_b_proj", "attn_k_b"},          \
  {                                                                                      \
    "self_attn.v_b_proj", "attn_v_b"                                                     \
  }
#define LATENT_KEYS                                                                      \
  {"kv_lora_rank", "attention.kv_lora_rank"}, {"q_lora_rank", "attention.q_lora_rank"},  \
      {"key_length", "attention.key_length"}, {"v_length", "attention.value_length"},    \
      {"qk_head_dim", "attention.key_length_mla"},                                       \
      {"v_head_dim", "attention.value_length_mla"},                                      \
  {                                                                                      \
    "qk_rope_head_dim", "rope.dimension_count"                                           \
  }

static void drop(json_t *config, const char *key)
{
  json_object_del(config, key);
}

/* Older files have the sizes of a head's keys and values where newer ones have those of
 * the latent. */
static void describe_latent(const struct lls_gguf *g, json_t *config)
{
  json_t *length = json_object_get(config, "key_length");
  json_t *value = json_object_get(config, "v_length");
  (void)g;
  if (json_object_get(config, "qk_head_dim") == NULL && length != NULL)
    json_object_set(config, "qk_head_dim", length);
  if (json_object_get(config, "v_head_dim") == NULL && value != NULL)
    json_object_set(config, "v_head_dim", value);
  json_int_t both = json_integer_value(json_object_get(config, "qk_head_dim"));
  json_int_t rope = json_integer_value(json_object_get(config, "qk_rope_head_dim"));
  json_object_set_new(config, "qk_nope_head_dim", json_integer(both - rope));
  drop(config, "key_length");
  drop(config, "v_length");
  drop(config, "partial_rotary_factor"); /* all of qk_rope_head_dim */
}

/* Chooses the class whose router is a softmax: weights of DeepSeek V2's experts do not
 * add up to 1, those of Mistral Large 3 and Mistral 4 do. */
static void describe_softmax(const struct lls_gguf *g, json_t *config)
{
  json_int_t groups = json_integer_value(json_object_get(config, "n_group"));
  struct lls_error ignored;
  json_t *normed = NULL;
  char key[64];
  drop(config, "gating_func"); /* absent, or 1: a softmax */
  snprintf(key, sizeof key, "%s.expert_weights_norm", g->architecture->name);
  lls_gguf_value(g->files[0], key, &normed, &ignored);
  bool one = json_is_true(normed);
  json_decref(normed);
  json_object_set_new(
      config, "architectures",
      json_pack("[s]", one ? "Mistral4ForCausalLM" : "DeepseekV2ForCausalLM"));
  json_object_set_new(config, "norm_topk_prob", json_boolean(one));
  if (!one)
    json_object_set_new(config, "topk_method",
                        json_string(groups > 1 ? "group_limited_greedy" : "greedy"));
}

/* The converter writes a tenth of the weight of YaRN's scale. */
static void describe_deepseek(const struct lls_gguf *g, json_t *config)
{
  json_t *rope = json_object_get(config, "rope_scaling");
  double weight = 10 * json_number_value(json_object_get(config, "log_multiplier"));
  describe_latent(g, config);
  move_growth(config);
  if (rope != NULL && weight > 0) {
    json_object_set_new(rope, "mscale", json_real(weight));
    json_object_set_new(rope, "mscale_all_dim", json_real(weight));
  }
  drop(config, "log_multiplier");
  if (json_integer_value(json_object_get(config, "gating_func")) != LLS_GGUF_LOGISTIC)
    describe_softmax(g, config);
  lls_gguf_describe_logistic(g, config);
}

static const struct lls_gguf_pair deepseek_tensors[] = {
    LATENT_TENSORS, LLS_GGUF_SHARED("mlp.shared_experts"), END};
static const struct lls_gguf_pair deepseek_keys[] = {
    LATENT_KEYS,
    {"log_multiplier", "rope.scaling.yarn_log_multiplier"},
    {"n_shared_experts", "expert_shared_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"gating_func", "expert_gating_func"},
    {"llama_4_scaling_beta", "attention.temperature_scale"},
    {"growth_every", "attention.temperature_length"},
    END};

/* llama.cpp has MiniCPM3's factors in its program, not in the file. */
static void describe_minicpm3(const struct lls_gguf *g, json_t *config)
{
  describe_latent(g, config);
  json_object_set_new(config, "scale_emb", json_integer(12));
  json_object_set_new(config, "scale_depth", json_real(1.4));
  json_object_set_new(config, "dim_model_base", json_integer(256));
}

static const struct lls_gguf_pair minicpm3_tensors[] = {LATENT_TENSORS, END};
static const struct lls_gguf_pair minicpm3_keys[] = {LATENT_KEYS, END};

const struct lls_gguf_architecture lls_gguf_families[] = {
    {.name = "llama4",
     .mixture = "Llama4ForCausalLM",
     .tensors = llama4_tensors,
     .keys = llama4_keys,
     .describe = describe_llama4},
    {.name = "deepseek2",
     .mixture = "DeepseekV3ForCausalLM",
     .tensors = deepseek_tensors,
     .keys = deepseek_keys,
     .describe = describe_deepseek},
    {.name = "mistral4",
     .mixture = "Mistral4ForCausalLM",
     .tensors = deepseek_tensors,
     .keys = deepseek_keys,
     .describe = describe_deepseek},
    {.name = "minicpm3",
     .model = "MiniCPM3ForCausalLM",
     .tensors = minicpm3_tensors,
     .keys = minicpm3_keys,
     .describe = describe_minicpm3},
    {.name = "mistral3",
     .model = "Ministral3ForCausalLM",
     .pairs = true,
     .keys = mistral_keys,
     .describe = describe_mistral},
    {.name = "apertus",
     .model = "ApertusForCausalLM",
     .tensors = apertus_tensors,
     .describe = describe_apertus},
    {.name = "bloom",
     .model = "BloomForCausalLM",
     .layer_norms = true,
     .tensors = bloom_tensors,
     .keys = gpt2_keys,
     .switches = no_switches},
    {.name = "mpt",
     .model = "MptForCausalLM",
     .layer_norms = true,
     .tensors = mpt_tensors,
     .keys = mpt_keys,
     .switches = no_switches,
     .describe = describe_mpt},
    {.name = "nemotron",
     .model = "NemotronForCausalLM",
     .layer_norms = true,
     .raised_norms = true,
     .keys = nemotron_keys},
    {.name = "minicpm",
     .model = "MiniCPMForCausalLM",
     .pairs = true,
     .keys = minicpm_keys,
     .describe = describe_minicpm},
    {.name = "gptneox",
     .model = "GPTNeoXForCausalLM",
     .layer_norms = true,
     .tensors = neox_tensors,
     .keys = neox_keys,
     .switches = neox_switches},
    {.name = "gemma4",
     .model = "Gemma4ForCausalLM",
     .mixture = "Gemma4ForCausalLM",
     .post_norms = true,
     .tensors = lls_gguf_gemma4_tensors,
     .keys = lls_gguf_gemma4_keys,
     .describe = lls_gguf_describe_gemma4},
    {.name = "gemma3n",
     .model = "Gemma3nForCausalLM",
     .post_norms = true,
     .tensors = lls_gguf_gemma3n_tensors,
     .keys = lls_gguf_gemma3n_keys,
     .describe = lls_gguf_describe_gemma3n},
    {.name = "qwen2vl", .model = "Qwen2VLForConditionalGeneration"},
    {.name = "qwen3vl", .model = "Qwen3VLForConditionalGeneration"},
    {.name = "granite",
     .model = "GraniteForCausalLM",
     .pairs = true,
     .keys = granite_keys},
    {.name = "ernie4_5", .model = "Ernie4_5ForCausalLM", .switches = ernie_switches},
    {.name = "command-r",
     .model = "CohereForCausalLM",
     .layer_norms = true,
     .keys = cohere_keys},
    {.name = "cohere2",
     .model = "Cohere2ForCausalLM",
     .layer_norms = true,
     .keys = cohere_keys},
    {.name = "exaone4", .model = "Exaone4ForCausalLM", .post_norms = true},
    {.name = "seed_oss",
     .model = "SeedOssForCausalLM",
     .post_norms = true,
     .switches = seed_switches},
    {.name = "hunyuan-dense",
     .model = "HunYuanDenseV1ForCausalLM",
     .tensors = hunyuan_tensors},
    {.name = "starcoder2",
     .model = "Starcoder2ForCausalLM",
     .layer_norms = true,
     .tensors = starcoder_tensors,
     .keys = starcoder_keys,
     .switches = starcoder_switches},
    {.name = "gpt2",
     .model = "GPT2LMHeadModel",
     .layer_norms = true,
     .tensors = gpt2_tensors,
     .keys = gpt2_keys,
     .switches = no_switches},
    {.name = "phi2",
     .model = "PhiForCausalLM",
     .layer_norms = true,
     .tensors = phi_tensors,
     .switches = no_switches},
    {.name = "stablelm",
     .model = "StableLmForCausalLM",
     .layer_norms = true,
     .keys = stablelm_keys,
     .switches = stablelm_switches},
    {.name = "falcon",
     .model = "FalconForCausalLM",
     .layer_norms = true,
     .tensors = falcon_tensors,
     .keys = falcon_keys,
     .switches = falcon_switches},
    {.name = "glm4",
     .model = "Glm4ForCausalLM",
     .post_norms = true,
     .tensors = glm4_tensors},
};

const size_t lls_n_gguf_families = sizeof lls_gguf_families / sizeof lls_gguf_families[0];
