/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EmbeddingGemma (arXiv 2509.20354): the text part of Gemma 3 with attention both ways,
 * as an encoder; its folder has two Dense modules behind the mean (dense.h).
 */
#include "core/model/architecture.h"

#include <errno.h>

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  bool both_ways = false;
  int rc = lls_json_bool_or(json, "use_bidirectional_attention", false, &both_ways, err);
  if (rc == 0 && !both_ways)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: Gemma3TextModel without \"use_bidirectional_attention\": this "
                  "class is supported as an encoder, Gemma3ForCausalLM as a generator",
                  json->file);
  if (rc == 0)
    rc = lls_config_gemma3_text(json, out, err);
  lls_json_get(json, "_sliding_window_pattern");
  /* The file's window counts the tokens on both sides of a token, and itself. */
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++)
    if (out->layer[i].window > 0)
      out->layer[i].window = out->layer[i].window / 2 + 1;
  return rc;
}

static const char *const names[] = {"Gemma3TextModel", NULL};

const struct lls_architecture lls_embedding_gemma = {
    .title = "EmbeddingGemma",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors = {.prefixes = {"", "model."},
                .embedding = "embed_tokens",
                .final_norm = "norm",
                .layers = "layers.",
                .output = "self_attn.o_proj",
                .down = "mlp.down_proj",
                LLS_GEMMA_NORMS,
                LLS_LLAMA_QKV,
                LLS_LLAMA_MLP,
                LLS_LLAMA_QK_NORMS},
};
