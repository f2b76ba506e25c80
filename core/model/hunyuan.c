/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hunyuan's dense models (Tencent): Llama's graph, in which query and key of each head
 * are normed after they are rotated. A fixed "alpha" stretches the rotation's base.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  lls_json_get(json, "use_qk_norm");        /* the tensors show it */
  lls_json_get(json, "attention_head_dim"); /* repeats head_dim */
  out->qk_norm = LLS_QK_NORM_HEAD;
  out->rope_before_norm = true;
  return rc;
}

static const char *const names[] = {"HunYuanDenseV1ForCausalLM", NULL};

const struct lls_architecture lls_hunyuan = {
    .title = "Hunyuan (dense)",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
            .q_norm = "self_attn.query_layernorm",
            .k_norm = "self_attn.key_layernorm",
        },
};
