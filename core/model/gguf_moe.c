/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files of mixtures of experts whose attention is Llama's but for switches; see
 * gguf_families.c. */
#include "core/model/gguf_moe.h"

#include <stdio.h>

#include "core/model/model_config.h"

#define END                                                                              \
  {                                                                                      \
    NULL, NULL                                                                           \
  }

static const struct lls_gguf_pair qwen2moe_tensors[] = {
    LLS_GGUF_SHARED("mlp.shared_expert"),
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    END};
static const struct lls_gguf_pair qwen2moe_keys[] = {
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, END};
static const struct lls_gguf_pair qwen2moe_switches[] = {{"qkv_bias", "attn_q.bias"},
                                                         END};

/* Weights of Qwen2's experts are not made to add up to 1. */
static void describe_qwen2moe(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  json_object_set_new(config, "norm_topk_prob", json_false());
}

void lls_gguf_describe_logistic(const struct lls_gguf *g, json_t *config)
{
  json_int_t layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
  json_int_t behind =
      json_integer_value(json_object_get(config, "num_nextn_predict_layers"));
  (void)g;
  if (json_integer_value(json_object_get(config, "gating_func")) == LLS_GGUF_LOGISTIC)
    json_object_del(config, "gating_func");
  if (behind > 0 && behind < layers)
    json_object_set_new(config, "num_hidden_layers", json_integer(layers - behind));
}

static const struct lls_gguf_pair glm4moe_tensors[] = {
    LLS_GGUF_SHARED("mlp.shared_experts"), END};
static const struct lls_gguf_pair glm4moe_keys[] = {
    {"n_shared_experts", "expert_shared_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"gating_func", "expert_gating_func"},
    END};
static const struct lls_gguf_pair glm4moe_switches[] = {
    {"attention_bias", "attn_q.bias"}, {"use_qk_norm", "attn_q_norm.weight"}, END};
static const struct lls_gguf_pair minimax_keys[] = {{"gating_func", "expert_gating_func"},
                                                    END};

static const struct lls_gguf_pair hunyuan_moe_tensors[] = {
    LLS_GGUF_SHARED("mlp.shared_mlp"),
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    END};
static const struct lls_gguf_pair hunyuan_moe_keys[] = {
    {"moe_topk", "expert_used_count"},
    {"num_shared_expert", "expert_shared_count"},
    {"shared_width", "expert_shared_feed_forward_length"},
    END};

/* The shared expert is as wide as the MLP of the dense models. */
static void describe_hunyuan_moe(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  if (json_equal(json_object_get(config, "shared_width"),
                 json_object_get(config, "intermediate_size")))
    json_object_del(config, "shared_width");
}

static const struct lls_gguf_pair hy3_tensors[] = {
    LLS_GGUF_SHARED("mlp.shared_mlp"), {"mlp.router.gate", "ffn_gate_inp"}, END};
static const struct lls_gguf_pair hy3_keys[] = {
    {"num_shared_experts", "expert_shared_feed_forward_length"},
    {"router_scaling_factor", "expert_weights_scale"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"gating_func", "expert_gating_func"},
    END};

/* Replaces the width of all shared experts by how many they are. */
static void count_shared(json_t *config, const char *key)
{
  json_int_t width = json_integer_value(json_object_get(config, key));
  json_int_t one = json_integer_value(json_object_get(config, "moe_intermediate_size"));
  if (one > 0 && width % one == 0)
    json_object_set_new(config, key, json_integer(width / one));
}

/* Files do not say which layers have no experts. */
static void describe_hy3(const struct lls_gguf *g, json_t *config)
{
  lls_gguf_describe_logistic(g, config);
  count_shared(config, "num_shared_experts");
  json_t *types = json_array();
  json_int_t n = json_integer_value(json_object_get(config, "num_hidden_layers"));
  for (unsigned i = 0; i < n && i < LLS_MAX_LAYERS; i++) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
    bool sparse = lls_gguf_tensor(g, name) != NULL;
    json_array_append_new(types, json_string(sparse ? "sparse" : "dense"));
  }
  json_object_set_new(config, "mlp_layer_types", types);
}

static const struct lls_gguf_pair ernie_moe_tensors[] = {
    LLS_GGUF_SHARED("mlp.shared_experts"), END};
static const struct lls_gguf_pair ernie_moe_keys[] = {
    {"moe_k", "expert_used_count"},
    {"moe_num_shared_experts", "expert_shared_count"},
    {"shared_width", "expert_shared_feed_forward_length"},
    {"moe_layer_start_index", "leading_dense_block_count"},
    {"moe_layer_interval", "interleave_moe_layer_step"},
    END};

/* The width of all shared experts says the same as their count; where it does not, it
 * stays, and is refused. */
static void describe_ernie_moe(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  json_object_set_new(config, "moe_num_experts",
                      json_incref(json_object_get(config, "num_experts")));
  count_shared(config, "shared_width");
  if (json_equal(json_object_get(config, "shared_width"),
                 json_object_get(config, "moe_num_shared_experts")))
    json_object_del(config, "shared_width");
}

const struct lls_gguf_architecture lls_gguf_moe[] = {
    {.name = "qwen2moe",
     .mixture = "Qwen2MoeForCausalLM",
     .dense_layers = true,
     .tensors = qwen2moe_tensors,
     .keys = qwen2moe_keys,
     .switches = qwen2moe_switches,
     .describe = describe_qwen2moe},
    {.name = "qwen3vlmoe", .mixture = "Qwen3MoeForCausalLM", .dense_layers = true},
    {.name = "hy_v3",
     .mixture = "HYV3ForCausalLM",
     .tensors = hy3_tensors,
     .keys = hy3_keys,
     .describe = describe_hy3},
    {.name = "ernie4_5-moe",
     .mixture = "Ernie4_5_MoeForCausalLM",
     .tensors = ernie_moe_tensors,
     .keys = ernie_moe_keys,
     .describe = describe_ernie_moe},
    {.name = "glm4moe",
     .mixture = "Glm4MoeForCausalLM",
     .post_norms = true,
     .tensors = glm4moe_tensors,
     .keys = glm4moe_keys,
     .switches = glm4moe_switches,
     .describe = lls_gguf_describe_logistic},
    {.name = "minimax-m2",
     .mixture = "MiniMaxM2ForCausalLM",
     .keys = minimax_keys,
     .describe = lls_gguf_describe_logistic},
    {.name = "hunyuan-moe",
     .mixture = "HunYuanMoEV1ForCausalLM",
     .tensors = hunyuan_moe_tensors,
     .keys = hunyuan_moe_keys,
     .describe = describe_hunyuan_moe},
};

const size_t lls_n_gguf_moe = sizeof lls_gguf_moe / sizeof lls_gguf_moe[0];
