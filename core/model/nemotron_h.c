/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nemotron-H, Nemotron Nano 2 and Nemotron 3 (NVIDIA): each layer is one branch alone, a
 * state space of Mamba-2, attention without a rotation, an MLP of two matrices, or a
 * mixture of experts of two matrices, which may work on fewer numbers than a row has.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Sets a layer by its name, or by its letter in a pattern such as "M-M*-". */
static int set_layer(const struct lls_json *json, const char *name,
                     struct lls_layer_config *out, struct lls_error *err)
{
  static const struct {
    const char *names[3];
    enum lls_layer_mix mix;
    bool no_mlp, mixture;
  } known[] = {{{"M", "mamba", "linear_attention"}, LLS_MIX_SPACE, true, false},
               {{"*", "attention", "full_attention"}, LLS_MIX_ATTENTION, true, false},
               {{"-", "mlp", "mlp"}, LLS_MIX_NONE, false, false},
               {{"E", "moe", "moe"}, LLS_MIX_NONE, false, true}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    for (size_t k = 0; k < 3; k++)
      if (strcmp(name, known[i].names[k]) == 0) {
        out->mix = known[i].mix;
        out->no_mlp = known[i].no_mlp;
        out->mixture = known[i].mixture;
        out->rope = LLS_LAYER_ROPE_OFF;
        return 0;
      }
  return lls_fail(err, -ENOTSUP,
                  "%s: a layer is \"%.32s\"; mamba (M), attention (*), mlp (-) and moe "
                  "(E) are supported",
                  json->file, name);
}

static int read_layers(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  const json_t *types = lls_json_get(json, "layer_types");
  const char *pattern = json_string_value(lls_json_get(json, "hybrid_override_pattern"));
  if (types == NULL)
    types = lls_json_get(json, "layers_block_type");
  size_t n = types != NULL ? json_array_size(types) : strlen(pattern ? pattern : "");
  if (n != out->layers)
    return lls_fail(err, -EINVAL, "%s: %zu kinds of layers are given for %u layers",
                    json->file, n, out->layers);
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < n && i < LLS_MAX_LAYERS; i++) {
    const char letter[2] = {types == NULL ? pattern[i] : '\0', '\0'};
    const char *name = json_string_value(json_array_get(types, i));
    rc = set_layer(json,
                   types == NULL  ? letter
                   : name != NULL ? name
                                  : "",
                   &out->layer[i], err);
  }
  return rc;
}

/* Newer folders give the kinds of layers without their number. */
static int give_number(const struct lls_json *json, struct lls_error *err)
{
  const json_t *types = json_object_get(json->root, "layer_types");
  if (types == NULL)
    types = json_object_get(json->root, "layers_block_type");
  if (types == NULL || json_object_get(json->root, "num_hidden_layers") != NULL)
    return 0;
  return json_object_set_new(json->root, "num_hidden_layers",
                             json_integer((json_int_t)json_array_size(types))) == 0
             ? 0
             : lls_fail(err, -ENOMEM, "out of memory");
}

static int read_norm_and_mlp(const struct lls_json *json, struct lls_model_config *out,
                             struct lls_error *err)
{
  int rc = lls_config_epsilon(json, out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "mlp_hidden_act", "relu2", &out->activation, err);
  out->gated = false;
  return rc;
}

/* Folders of models without mixtures may list sizes of experts. */
static int read_mixture(const struct lls_json *json, struct lls_model_config *out,
                        struct lls_error *err)
{
  struct lls_mixture_config *m = &out->mixture;
  static const char *const sizes[] = {"n_routed_experts", "num_experts_per_tok",
                                      "moe_intermediate_size", NULL};
  uint32_t shared = 0;
  const json_t *latent = lls_json_get(json, "moe_latent_size");
  for (size_t i = 0; sizes[i] != NULL; i++)
    if (lls_json_get(json, sizes[i]) == NULL)
      return 0;
  int rc = lls_config_logistic_mixture(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "moe_shared_expert_intermediate_size", m->ffn, &shared,
                          err);
  if (rc == 0 && latent != NULL && !json_is_null(latent))
    rc = lls_json_size_or(json, "moe_latent_size", 0, &m->latent, err);
  if (rc == 0 && m->latent > out->hidden)
    rc = lls_fail(err, -ENOTSUP, "%s: \"moe_latent_size\" is over hidden_size, %u",
                  json->file, out->hidden);
  m->shared = shared;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  static const struct lls_mamba_keys keys = {.heads = "mamba_num_heads",
                                             .head_dim = "mamba_head_dim",
                                             .groups = "n_groups",
                                             .states = "ssm_state_size",
                                             .width = "conv_kernel",
                                             .expand = "expand",
                                             .chunk = "chunk_size",
                                             .conv_bias = "use_conv_bias",
                                             .bias = "mamba_proj_bias"};
  /* Starting values of training, and switches between kernels. */
  static const char *const unused[] = {"time_step_max",
                                       "time_step_floor",
                                       "rescale_prenorm_residual",
                                       "residual_in_fp32",
                                       "mamba_hidden_act",
                                       "mamba_ssm_cache_dtype",
                                       "use_mamba_kernels",
                                       "num_logits_to_keep",
                                       "mtp_layers_block_type",
                                       "mtp_hybrid_override_pattern",
                                       "moe_shared_expert_overlap",
                                       NULL};
  double least = 0;
  int rc = give_number(json, err);
  if (rc == 0)
    rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = read_norm_and_mlp(json, out, err);
  if (rc == 0)
    rc = lls_config_mamba(json, &keys, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "time_step_min", 0.001, &least, err);
  out->recurrent.dt_min = (float)least;
  out->recurrent.dt_max = INFINITY;
  lls_config_pass_over(json, unused);
  if (rc == 0)
    rc = read_mixture(json, out, err);
  return rc < 0 ? rc : read_layers(json, out, err);
}

static const char *const names[] = {"NemotronHForCausalLM", NULL};

const struct lls_architecture lls_nemotron_h = {
    .title = "Nemotron-H",
    .names = names,
    .configure = configure,
    .tensors = {.prefixes = {"backbone.", "model."},
                .embedding = "embeddings",
                .final_norm = "norm_f",
                .head = "lm_head",
                .layers = "layers.",
                .attention_norm = "norm",
                .mlp_norm = "norm",
                .q = "mixer.q_proj",
                .k = "mixer.k_proj",
                .v = "mixer.v_proj",
                .output = "mixer.o_proj",
                .up = "mixer.up_proj",
                .down = "mixer.down_proj",
                .router = "mixer.gate",
                .router_bias = "mixer.gate.e_score_correction_bias",
                .experts = "mixer.experts.",
                .expert_up = "up_proj",
                .expert_down = "down_proj",
                .shared_up = "mixer.shared_experts.up_proj",
                .shared_down = "mixer.shared_experts.down_proj",
                .mixture_in = "mixer.fc1_latent_proj",
                .mixture_out = "mixer.fc2_latent_proj",
                LLS_MAMBA_TENSORS("mixer.")},
};
