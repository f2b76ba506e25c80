/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files of families that differ from Llama by names and switches: what
 * gguf_names.c, gguf_keys.c and gguf_config.c need to know of each.
 */
#include "core/model/gguf.h"

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

const struct lls_gguf_architecture lls_gguf_families[] = {
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
