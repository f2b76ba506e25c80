/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mamba 2 (arXiv 2405.21060), such as Codestral Mamba: each layer is a state space alone.
 * Nothing attends, so a sequence has a state of the same size whatever its length.
 */
#include "core/model/architecture.h"

#include <errno.h>

/* Sets a key that the common sizes are read from, where the file does not have it. */
static int set_missing(const struct lls_json *json, const char *key, json_int_t number,
                       struct lls_error *err)
{
  if (json_object_get(json->root, key) != NULL)
    return 0;
  return json_object_set_new(json->root, key, json_integer(number)) == 0
             ? 0
             : lls_fail(err, -ENOMEM, "out of memory");
}

/* Nothing limits a text's length: the number is what llama.cpp's files have. */
#define LONGEST (1 << 20)

/* Ranks share the heads of the state space as they would share those of attention, which
 * has the same sizes here, and no weights. */
static int set_sizes(const struct lls_json *json, struct lls_error *err)
{
  json_int_t heads = json_integer_value(json_object_get(json->root, "num_heads"));
  json_int_t width = json_integer_value(json_object_get(json->root, "head_dim"));
  int rc = set_missing(json, "num_attention_heads", heads, err);
  if (rc == 0)
    rc = set_missing(json, "num_key_value_heads", heads, err);
  if (rc == 0)
    rc = set_missing(json, "intermediate_size", heads * width, err);
  return rc < 0 ? rc : set_missing(json, "max_position_embeddings", LONGEST, err);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  static const struct lls_mamba_keys keys = {.heads = "num_heads",
                                             .head_dim = "head_dim",
                                             .groups = "n_groups",
                                             .states = "state_size",
                                             .width = "conv_kernel",
                                             .expand = "expand",
                                             .chunk = "chunk_size",
                                             .conv_bias = "use_conv_bias",
                                             .bias = "use_bias"};
  /* Starting values of training, and the type of sums in 16 bits. */
  static const char *const unused[] = {"time_step_rank",
                                       "time_step_min",
                                       "time_step_max",
                                       "time_step_floor",
                                       "rescale_prenorm_residual",
                                       "residual_in_fp32",
                                       NULL};
  int rc = set_sizes(json, err);
  if (rc == 0)
    rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_epsilon(json, out, err);
  if (rc == 0)
    rc = lls_config_mamba(json, &keys, out, err);
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++) {
    out->layer[i].mix = LLS_MIX_SPACE;
    out->layer[i].no_mlp = true;
  }
  lls_config_pass_over(json, unused);
  return rc;
}

static const char *const names[] = {"Mamba2ForCausalLM", NULL};

const struct lls_architecture lls_mamba2 = {
    .title = "Mamba 2",
    .names = names,
    .configure = configure,
    .tensors = {.prefixes = {"backbone.", "model.backbone."},
                .embedding = "embeddings",
                .final_norm = "norm_f",
                .head = "lm_head",
                .head_prefix = "model.",
                .layers = "layers.",
                .attention_norm = "norm",
                LLS_MAMBA_TENSORS("mixer.")},
};
