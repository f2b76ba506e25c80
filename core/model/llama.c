/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama 2 and 3 (arXiv 2302.13971, 2407.21783), Mistral (arXiv 2310.06825) and Yi: RMS
 * norms before gated SiLU branches, rotary positions, grouped key-value heads. All are
 * one graph, to which Mistral adds a sliding window.
 */
#include <string.h>

#include "core/model/architecture.h"

/* Mistral's window is 4096 if the key is absent, and off if it is null. */
static int configure_window(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  const char *type;
  uint32_t window = 0;
  int rc = lls_json_string_or(json, "model_type", "llama", &type, err);
  if (rc < 0 || strcmp(type, "mistral") != 0)
    return rc;
  bool silent = json_object_get(json->root, "sliding_window") == NULL;
  rc = lls_json_size_or(json, "sliding_window", silent ? 4096 : 0, &window, err);
  lls_config_window(out, window);
  return rc;
}

int lls_config_llama(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  out->norm = LLS_NORM_RMS;
  out->norm_affine = out->final_norm = out->gated = true;
  double epsilon;
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "silu", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "rms_norm_eps", 1e-6, &epsilon, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", false, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "mlp_bias", false, &out->mlp_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  if (rc < 0)
    return rc;
  out->norm_epsilon = (float)epsilon;
  out->output_bias = out->qkv_bias;
  return 0;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  return rc < 0 ? rc : configure_window(json, out, err);
}

static const char *const names[] = {"LlamaForCausalLM", "MistralForCausalLM",
                                    "YiForCausalLM", "MistralModel", NULL};

const struct lls_architecture lls_llama = {
    .title = "Llama (2, 3, Mistral, Yi, SmolLM2)",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};
