/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StableLM (arXiv 2402.17834): Llama's graph with LayerNorm, and rotary positions on a
 * part of each head.
 */
#include "core/model/architecture.h"

#include <errno.h>

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool parallel = false;
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_eps", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "silu", &out->activation, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 0.25, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_qkv_bias", false, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_parallel_residual", false, &parallel, err);
  if (rc == 0 && parallel)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"use_parallel_residual\" is true; StableLM with branches one "
                  "after the other is supported",
                  json->file);
  out->gated = true;
  return rc;
}

static const char *const names[] = {"StableLmForCausalLM", "StableLMEpochForCausalLM",
                                    NULL};

const struct lls_architecture lls_stablelm = {
    .title = "StableLM",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};
