/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Falcon (arXiv 2311.16867): LayerNorm, a plain MLP, attention and MLP in parallel. The
 * 7B model has one norm and one key-value head; larger ones have two norms, and query,
 * key and value of each key-value head's group fused.
 */
#include "core/model/architecture.h"

#include <errno.h>

static int read_switches(const struct lls_json *json, bool *grouped, bool *one_head,
                         struct lls_error *err)
{
  bool parallel = true, alibi = false;
  uint32_t norms = 0;
  int rc = lls_json_bool_or(json, "new_decoder_architecture", false, grouped, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "multi_query", true, one_head, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "parallel_attn", true, &parallel, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "alibi", false, &alibi, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_ln_in_parallel_attn", *grouped ? 2 : 1, &norms, err);
  if (rc == 0 && (alibi || (!parallel && !*grouped) || norms != (*grouped ? 2 : 1) ||
                  !(*grouped || *one_head)))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: of Falcon's kinds those of the 7B, 11B, 40B and 180B models are "
                  "supported: rotary positions, branches in parallel, and one key-value "
                  "head with one norm, or groups of heads with two",
                  json->file);
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool grouped = false, one_head = false, bias = false;
  int rc = lls_config_sizes(json, out, NULL, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "ffn_hidden_size", 4 * out->hidden, &out->ffn, err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_epsilon", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "activation", "gelu", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "bias", false, &bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_kv_heads", out->heads, &out->kv_heads, err);
  if (rc == 0)
    rc = read_switches(json, &grouped, &one_head, err);
  if (!grouped)
    out->kv_heads = 1;
  out->qkv_bias = out->output_bias = out->mlp_bias = bias;
  out->parallel_residual = true;
  out->architecture = grouped ? &lls_falcon_grouped : &lls_falcon;
  return rc;
}

static const char *const names[] = {"FalconForCausalLM", "RWForCausalLM", NULL};
static const char *const no_names[] = {NULL};

#define FALCON_NAMES                                                                     \
  .prefixes = {"transformer.", ""}, .embedding = "word_embeddings",                      \
  .final_norm = "ln_f", .head = "lm_head", .layers = "h.",                               \
  .output = "self_attention.dense", .up = "mlp.dense_h_to_4h",                           \
  .down = "mlp.dense_4h_to_h"

const struct lls_architecture lls_falcon = {
    .title = "Falcon",
    .names = names,
    .configure = configure,
    .tensors = {FALCON_NAMES, .stacked_qkv = "self_attention.query_key_value",
                .attention_norm = "input_layernorm", .mlp_norm = "input_layernorm"},
};

/* The kind with groups of heads, which configure chooses. */
const struct lls_architecture lls_falcon_grouped = {
    .title = "Falcon 40B",
    .names = no_names,
    .configure = configure,
    .tensors = {FALCON_NAMES, .fused_qkv = "self_attention.query_key_value",
                .attention_norm = "ln_attn", .mlp_norm = "ln_mlp"},
};
