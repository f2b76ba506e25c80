/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPNet (arXiv 2004.09297; all-mpnet-base-v2): RoBERTa without token types, whose heads
 * add to each score a number that depends on the distance, the same in all layers.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_roberta(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "relative_attention_num_buckets", 32,
                          &out->relative_buckets, err);
  out->token_types = 0;
  return rc;
}

static const char *const names[] = {"MPNetModel", "MPNetForMaskedLM", NULL};

const struct lls_architecture lls_mpnet = {
    .title = "MPNet",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"", "mpnet."},
            .embedding = "embeddings.word_embeddings",
            .positions = "embeddings.position_embeddings",
            .embedding_norm = "embeddings.LayerNorm",
            .relative_bias = "encoder.relative_attention_bias",
            .layers = "encoder.layer.",
            .attention_norm = "attention.LayerNorm",
            .mlp_norm = "output.LayerNorm",
            .q = "attention.attn.q",
            .k = "attention.attn.k",
            .v = "attention.attn.v",
            .output = "attention.attn.o",
            .up = "intermediate.dense",
            .down = "output.dense",
        },
};
