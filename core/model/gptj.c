/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-J (EleutherAI): attention and MLP read one norm and are added in parallel; some
 * dimensions of a head rotate, neighbours together; attention has no biases, the MLP and
 * the head have.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  uint32_t rotated = 64;
  int rc = lls_config_gpt(json, out, err);
  if (rc == 0)
    rc = lls_config_rope(json, "rope_theta", 1.0, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "rotary_dim", rotated, &rotated, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "tie_word_embeddings", false, &out->tied_embeddings, err);
  out->rope.dims = rotated;
  lls_json_get(json, "scale_attn_weights"); /* scores are scaled in any case */
  out->head_bias = out->parallel_residual = out->paired_rope = true;
  return rc;
}

static const char *const names[] = {"GPTJForCausalLM", NULL};

const struct lls_architecture lls_gptj = {
    .title = "GPT-J",
    .names = names,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"transformer.", ""},
            .embedding = "wte",
            .final_norm = "ln_f",
            .head = "lm_head",
            .layers = "h.",
            .attention_norm = "ln_1",
            .mlp_norm = "ln_1",
            .q = "attn.q_proj",
            .k = "attn.k_proj",
            .v = "attn.v_proj",
            .output = "attn.out_proj",
            .up = "mlp.fc_in",
            .down = "mlp.fc_out",
        },
};
