/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Granite 4 H (IBM): most layers have Mamba-2's state space in attention's place, the
 * others attend without a rotation. Granite 3's four factors. Experts have an MLP for all
 * rows added to them; a model without experts has this MLP alone.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

static int read_layers(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  const json_t *types = lls_json_get(json, "layer_types");
  if (types == NULL)
    types = lls_json_get(json, "layers_block_type");
  if (json_array_size(types) != out->layers)
    return lls_fail(err, -EINVAL, "%s: \"layer_types\" should be a list of %u names",
                    json->file, out->layers);
  bool any = false;
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++) {
    const char *type = json_string_value(json_array_get(types, i));
    bool folds = type != NULL &&
                 (strcmp(type, "mamba") == 0 || strcmp(type, "linear_attention") == 0);
    if (!folds && (type == NULL || (strcmp(type, "attention") != 0 &&
                                    strcmp(type, "full_attention") != 0)))
      return lls_fail(err, -ENOTSUP,
                      "%s: \"layer_types\" has \"%.32s\"; attention and mamba are "
                      "supported",
                      json->file, type != NULL ? type : "");
    out->layer[i].mix = folds ? LLS_MIX_SPACE : LLS_MIX_ATTENTION;
    any |= folds;
  }
  if (!any)
    out->recurrent = (struct lls_recurrent_config){0};
  return 0;
}

/* Without a rotation nothing tells positions apart but the states. */
static int read_rope(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  const char *kind = "";
  const json_t *given = lls_json_get(json, "position_embedding_type");
  int rc = given == NULL || json_is_null(given)
               ? 0
               : lls_json_string_or(json, "position_embedding_type", "", &kind, err);
  bool rotates = strcmp(kind, "rope") == 0;
  if (rc == 0 && !rotates && kind[0] != '\0' && strcmp(kind, "nope") != 0)
    rc = lls_fail(err, -ENOTSUP, "%s: \"position_embedding_type\" is \"%.32s\"",
                  json->file, kind);
  for (uint32_t i = 0; !rotates && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].rope = LLS_LAYER_ROPE_OFF;
  return rc;
}

static int read_mlps(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  uint32_t shared = 1024, experts = 0;
  int rc = lls_json_size_or(json, "shared_intermediate_size", shared, &shared, err);
  if (rc == 0 && json_integer_value(lls_json_get(json, "num_local_experts")) > 0)
    rc = lls_json_size_or(json, "num_local_experts", 0, &experts, err);
  if (rc == 0 && experts == 0) {
    lls_json_get(json, "num_experts_per_tok");
    out->ffn = shared;
    return 0;
  }
  m->experts = experts;
  m->ffn = out->ffn;
  m->shared = shared;
  m->normalise = true;
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mixture = true;
  return rc < 0 ? rc : lls_json_size_or(json, "num_experts_per_tok", 2, &m->active, err);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  double residual = 1, epsilon = 0;
  int rc = lls_config_granite(json, out, err);
  if (rc == 0)
    rc = lls_config_mamba(json, &lls_mamba_keys, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "residual_multiplier", 1, &residual, err);
  epsilon = (double)out->norm_epsilon * residual * residual;
  out->recurrent.norm_epsilon = (float)epsilon;
  if (rc == 0)
    rc = read_mlps(json, out, err);
  if (rc == 0)
    rc = read_rope(json, out, err);
  return rc < 0 ? rc : read_layers(json, out, err);
}

static const char *const names[] = {"GraniteMoeHybridForCausalLM", NULL};

const struct lls_architecture lls_granite_hybrid = {
    .title = "Granite 4 H",
    .names = names,
    .configure = configure,
    .tensors = {.prefixes = {"model.", ""},
                .embedding = "embed_tokens",
                .final_norm = "norm",
                .head = "lm_head",
                .layers = "layers.",
                .output = "self_attn.o_proj",
                LLS_LLAMA_NORMS,
                LLS_LLAMA_QKV,
                .stacked_up = "shared_mlp.input_linear",
                .down = "shared_mlp.output_linear",
                .router = "block_sparse_moe.router.layer",
                .experts = "block_sparse_moe.",
                .expert_stacked_up = "input_linear.weight",
                .expert_down = "output_linear.weight",
                .shared_up = "shared_mlp.input_linear",
                .shared_down = "shared_mlp.output_linear",
                LLS_MAMBA_TENSORS("mamba.")},
};

static const char *const gguf_names[] = {LLS_GGUF_GRANITE, NULL};

const struct lls_architecture lls_gguf_granite_hybrid = {
    .title = "Granite 4 H in a GGUF file",
    .names = gguf_names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP,
                .router = "block_sparse_moe.router.layer", .experts = "mlp.experts.",
                .expert_gate = "gate_proj", .expert_up = "up_proj",
                .expert_down = "down_proj", .shared_gate = "shared_mlp.gate_proj",
                .shared_up = "shared_mlp.up_proj", .shared_down = "shared_mlp.down_proj",
                LLS_MAMBA_TENSORS("mamba.")},
};
