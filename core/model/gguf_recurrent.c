/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files of families with layers that keep a state; see gguf_families.c. */
#include "core/model/gguf.h"

#define END                                                                              \
  {                                                                                      \
    NULL, NULL                                                                           \
  }

static const struct lls_gguf_pair lfm2_tensors[] = {
    {"embedding_norm", "token_embd_norm"},
    {"operator_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.conv", "shortconv.conv"},
    {"conv.out_proj", "shortconv.out_proj"},
    END};
static const struct lls_gguf_pair lfm2_keys[] = {{"conv_L_cache", "shortconv.l_cache"},
                                                 END};
static const struct lls_gguf_pair lfm2_switches[] = {
    {"conv_bias", "shortconv.in_proj.bias"}, END};

/* Layers without key-value heads are convolutions. The MLP's width is as it is. */
static void describe_lfm2(const struct lls_gguf *g, json_t *config)
{
  json_t *heads = json_object_get(config, "num_key_value_heads"), *types = json_array();
  json_int_t most = 0;
  size_t i;
  const json_t *each;
  (void)g;
  json_object_set_new(config, "block_auto_adjust_ff_dim", json_false());
  json_array_foreach(heads, i, each)
  {
    json_int_t n = json_integer_value(each);
    most = n > most ? n : most;
    json_array_append_new(types, json_string(n > 0 ? "full_attention" : "conv"));
  }
  if (most > 0) {
    json_object_set(config, "layer_types", types);
    json_object_set_new(config, "num_key_value_heads", json_integer(most));
  }
  json_decref(types);
}

static const struct lls_gguf_pair delta_tensors[] = {
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_qkvz", "ssm_in"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    END};
static const struct lls_gguf_pair delta_keys[] = {
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"full_attention_interval", "full_attention_interval"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_value_head_dim", "ssm.inner_size"}, /* of all heads */
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    END};
static const struct lls_gguf_pair delta_switches[] = {END};

/* Divides the values among heads, and leaves out layers that draft. */
static void describe_delta(const struct lls_gguf *g, json_t *config)
{
  json_int_t heads =
      json_integer_value(json_object_get(config, "linear_num_value_heads"));
  json_int_t values =
      json_integer_value(json_object_get(config, "linear_value_head_dim"));
  json_int_t layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
  json_int_t behind =
      json_integer_value(json_object_get(config, "num_nextn_predict_layers"));
  (void)g;
  if (heads > 0 && values % heads == 0)
    json_object_set_new(config, "linear_value_head_dim", json_integer(values / heads));
  if (behind > 0 && behind < layers)
    json_object_set_new(config, "num_hidden_layers", json_integer(layers - behind));
  json_object_del(config, "num_nextn_predict_layers");
}

/* The converter sorts value heads by their number within a key head. */
static void describe_tiled_delta(const struct lls_gguf *g, json_t *config)
{
  describe_delta(g, config);
  json_object_set_new(
      config, "linear_value_heads_tiled",
      json_boolean(!json_equal(json_object_get(config, "linear_num_key_heads"),
                               json_object_get(config, "linear_num_value_heads"))));
}

/* Members that the three rows of delta nets have alike. */
#define DELTA                                                                            \
  .post_norms = true, .raised_norms = true, .tensors = delta_tensors,                    \
  .keys = delta_keys, .switches = delta_switches

const struct lls_gguf_architecture lls_gguf_recurrent[] = {
    {.name = "lfm2",
     .model = "Lfm2ForCausalLM",
     .tensors = lfm2_tensors,
     .keys = lfm2_keys,
     .switches = lfm2_switches,
     .describe = describe_lfm2},
    {.name = "qwen3next",
     .mixture = "Qwen3NextForCausalLM",
     .describe = describe_delta,
     DELTA},
    {.name = "qwen35",
     .model = "Qwen3_5ForCausalLM",
     .describe = describe_tiled_delta,
     DELTA},
    {.name = "qwen35moe",
     .mixture = "Qwen3_5MoeForCausalLM",
     .describe = describe_tiled_delta,
     DELTA},
};

const size_t lls_n_gguf_recurrent =
    sizeof lls_gguf_recurrent / sizeof lls_gguf_recurrent[0];
