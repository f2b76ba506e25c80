/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files of families with the state space of Mamba-2; see gguf_families.c. */
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/gguf.h"

#define END                                                                              \
  {                                                                                      \
    NULL, NULL                                                                           \
  }

#define SPACE_TENSORS(mixer)                                                             \
  {mixer ".in_proj", "ssm_in"}, {mixer ".conv1d", "ssm_conv1d"},                         \
      {mixer ".norm", "ssm_norm"},                                                       \
  {                                                                                      \
    mixer ".out_proj", "ssm_out"                                                         \
  }
#define EPSILONS                                                                         \
  {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},                                  \
  {                                                                                      \
    "layer_norm_epsilon", "attention.layer_norm_epsilon"                                 \
  }

static json_int_t number_of(const json_t *config, const char *key)
{
  return json_integer_value(json_object_get(config, key));
}

/* Replaces the state space's width by a head's. */
static void divide_heads(json_t *config, const char *heads, const char *head_dim)
{
  json_int_t n = number_of(config, heads), width = number_of(config, head_dim);
  if (n > 0 && width % n == 0)
    json_object_set_new(config, head_dim, json_integer(width / n));
}

/* Makes the largest number of a list of one for each layer the key's value. */
static void take_largest(json_t *config, const char *key)
{
  json_int_t most = 0;
  size_t i;
  const json_t *each;
  json_array_foreach(json_object_get(config, key), i, each)
  {
    json_int_t n = json_integer_value(each);
    most = n > most ? n : most;
  }
  if (json_is_array(json_object_get(config, key)) && most > 0)
    json_object_set_new(config, key, json_integer(most));
}

/* Sets the kinds of layers: one with key-value heads attends, one with an MLP's width has
 * an MLP of the kind `mlp` (or all have one: NULL), and others are state spaces. */
static void set_kinds(json_t *config, const char *key, const char *mlp)
{
  json_t *kinds = json_array();
  const json_t *heads = json_object_get(config, "num_key_value_heads");
  const json_t *widths = json_object_get(config, "intermediate_size");
  for (json_int_t i = 0; i < number_of(config, "num_hidden_layers"); i++) {
    size_t at = (size_t)i;
    bool attends = json_is_array(heads)
                       ? json_integer_value(json_array_get(heads, at)) > 0
                       : json_integer_value(heads) > 0;
    bool wide = json_integer_value(json_array_get(widths, at)) > 0;
    json_array_append_new(kinds, json_string(attends               ? "attention"
                                             : mlp != NULL && wide ? mlp
                                                                   : "mamba"));
  }
  json_object_set_new(config, key, kinds);
  take_largest(config, "num_key_value_heads");
  take_largest(config, "intermediate_size");
}

/* ---- Nemotron-H and 3 ------------------------------------------------------------- */

static const struct lls_gguf_pair nemotron_tensors[] = {
    {"embeddings", "token_embd"},
    {"norm_f", "output_norm"},
    {"norm", "attn_norm"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
    {"mixer.fc1_latent_proj", "ffn_latent_down"},
    {"mixer.fc2_latent_proj", "ffn_latent_up"},
    SPACE_TENSORS("mixer"),
    END};
static const struct lls_gguf_pair nemotron_keys[] = {
    EPSILONS,
    {"conv_kernel", "ssm.conv_kernel"},
    {"ssm_state_size", "ssm.state_size"},
    {"n_groups", "ssm.group_count"},
    {"mamba_num_heads", "ssm.time_step_rank"},
    {"mamba_head_dim", "ssm.inner_size"}, /* heads times their columns */
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"moe_latent_size", "moe_latent_size"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    END};
static const struct lls_gguf_pair nemotron_switches[] = {
    {"mamba_proj_bias", "ssm_in.bias"}, END};

/* A block behind the others drafts, and is left out. */
static void describe_nemotron(const struct lls_gguf *g, json_t *config)
{
  json_int_t layers = number_of(config, "num_hidden_layers");
  json_int_t behind = number_of(config, "num_nextn_predict_layers");
  bool experts = lls_gguf_experts(g) > 0;
  if (behind > 0 && behind < layers)
    json_object_set_new(config, "num_hidden_layers", json_integer(layers - behind));
  json_object_del(config, "num_nextn_predict_layers");
  divide_heads(config, "mamba_num_heads", "mamba_head_dim");
  set_kinds(config, "layers_block_type", experts ? "moe" : "mlp");
  if (!experts)
    return;
  json_object_set(config, "n_routed_experts", json_object_get(config, "num_experts"));
  json_object_del(config, "num_experts");
  json_object_del(config, "num_local_experts");
}

/* ---- Granite 4 H ------------------------------------------------------------------ */

static const struct lls_gguf_pair granite_tensors[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"shared_mlp.up_proj", "ffn_up_shexp"},
    {"shared_mlp.down_proj", "ffn_down_shexp"},
    SPACE_TENSORS("mamba"),
    END};
static const struct lls_gguf_pair granite_keys[] = {
    EPSILONS,
    {"attention_multiplier", "attention.scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
    {"mamba_d_conv", "ssm.conv_kernel"},
    {"mamba_d_state", "ssm.state_size"},
    {"mamba_n_groups", "ssm.group_count"},
    {"mamba_n_heads", "ssm.time_step_rank"},
    {"mamba_d_head", "ssm.inner_size"}, /* heads times their columns */
    {"shared_intermediate_size", "expert_shared_feed_forward_length"},
    END};
static const struct lls_gguf_pair granite_switches[] = {
    {"mamba_proj_bias", "ssm_in.bias"}, END};

/* The folder's intermediate_size is an expert's, and the MLP's width has another key. The
 * file's attention has no rotation. */
static void describe_granite(const struct lls_gguf *g, json_t *config)
{
  divide_heads(config, "mamba_n_heads", "mamba_d_head");
  set_kinds(config, "layer_types", NULL);
  if (lls_gguf_experts(g) == 0)
    json_object_set(config, "shared_intermediate_size",
                    json_object_get(config, "intermediate_size"));
  json_object_set_new(config, "architectures", json_pack("[s]", LLS_GGUF_GRANITE));
  json_object_del(config, "num_experts");
  json_object_del(config, "norm_topk_prob");
  json_object_del(config, "moe_intermediate_size");
}

/* ---- Mamba 2 ---------------------------------------------------------------------- */

static const struct lls_gguf_pair mamba_tensors[] = {{"embeddings", "token_embd"},
                                                     {"norm_f", "output_norm"},
                                                     {"norm", "attn_norm"},
                                                     SPACE_TENSORS("mixer"),
                                                     END};
static const struct lls_gguf_pair mamba_keys[] = {
    EPSILONS,
    {"conv_kernel", "ssm.conv_kernel"},
    {"state_size", "ssm.state_size"},
    {"n_groups", "ssm.group_count"},
    {"num_heads", "ssm.time_step_rank"},
    {"head_dim", "ssm.inner_size"}, /* heads times their columns */
    END};
static const struct lls_gguf_pair mamba_switches[] = {{"use_bias", "ssm_in.bias"}, END};

/* The metadata has 0 for sizes that the model does not have. */
static void describe_mamba(const struct lls_gguf *g, json_t *config)
{
  static const char *const none[] = {"num_attention_heads", "num_key_value_heads",
                                     "intermediate_size"};
  (void)g;
  divide_heads(config, "num_heads", "head_dim");
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    if (number_of(config, none[i]) == 0)
      json_object_del(config, none[i]);
}

/* ---- Falcon-H1 -------------------------------------------------------------------- */

static const struct lls_gguf_pair falcon_tensors[] = {
    {"final_layernorm", "output_norm"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    SPACE_TENSORS("mamba"),
    END};
static const struct lls_gguf_pair falcon_keys[] = {
    {"mamba_d_conv", "ssm.conv_kernel"},
    {"mamba_d_state", "ssm.state_size"},
    {"mamba_n_groups", "ssm.group_count"},
    {"mamba_n_heads", "ssm.time_step_rank"},
    {"mamba_d_head", "ssm.inner_size"}, /* heads times their columns */
    END};
static const struct lls_gguf_pair falcon_switches[] = {
    {"mamba_rms_norm", "ssm_norm.weight"}, {"mamba_proj_bias", "ssm_in.bias"}, END};

/* llama.cpp applies the norm behind the gate. */
static void describe_falcon(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  divide_heads(config, "mamba_n_heads", "mamba_d_head");
  json_object_set_new(config, "mamba_norm_before_gate", json_false());
}

const struct lls_gguf_architecture lls_gguf_mamba[] = {
    {.name = "nemotron_h",
     .model = "NemotronHForCausalLM",
     .tensors = nemotron_tensors,
     .keys = nemotron_keys,
     .switches = nemotron_switches,
     .describe = describe_nemotron},
    {.name = "nemotron_h_moe",
     .mixture = "NemotronHForCausalLM",
     .tensors = nemotron_tensors,
     .keys = nemotron_keys,
     .switches = nemotron_switches,
     .describe = describe_nemotron},
    {.name = "granitehybrid",
     .model = "GraniteMoeHybridForCausalLM",
     .mixture = "GraniteMoeHybridForCausalLM",
     .tensors = granite_tensors,
     .keys = granite_keys,
     .switches = granite_switches,
     .describe = describe_granite},
    {.name = "falcon-h1",
     .model = "FalconH1ForCausalLM",
     .tensors = falcon_tensors,
     .keys = falcon_keys,
     .switches = falcon_switches,
     .describe = describe_falcon},
    {.name = "mamba2",
     .model = "Mamba2ForCausalLM",
     .tensors = mamba_tensors,
     .keys = mamba_keys,
     .switches = mamba_switches,
     .describe = describe_mamba},
};

const size_t lls_n_gguf_mamba = sizeof lls_gguf_mamba / sizeof lls_gguf_mamba[0];
