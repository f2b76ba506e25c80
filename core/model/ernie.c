/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ERNIE 4.5 (Baidu): Llama's graph, in which neighbouring dimensions of a head rotate
 * together, and one key switches the biases of all matrices.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool bias = false;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_bias", false, &bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", true, &out->tied_embeddings, err);
  out->qkv_bias = out->output_bias = out->mlp_bias = bias;
  out->paired_rope = true;
  return rc;
}

static const char *const names[] = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", NULL};

const struct lls_architecture lls_ernie = {
    .title = "ERNIE 4.5",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
        },
};
