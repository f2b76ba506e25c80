/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (arXiv 1810.04805) and what is built like it (MiniLM, bge, e5): the sum of token,
 * position and type vectors is normed, layers norm after each addition, attention looks
 * both ways. Only its last layer's vectors are used, so poolers and heads are not read.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  double epsilon = 1e-12;
  const char *positions = "absolute";
  out->norm = LLS_NORM_LAYER;
  out->norm_affine = true;
  out->norm_place = LLS_NORM_SUM;
  out->qkv_bias = out->output_bias = out->mlp_bias = true;
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "gelu", &out->activation, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "layer_norm_eps", epsilon, &epsilon, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "type_vocab_size", 2, &out->token_types, err);
  if (rc == 0)
    rc = lls_json_string_or(json, "position_embedding_type", positions, &positions, err);
  if (rc == 0 && strcmp(positions, "absolute") != 0)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"position_embedding_type\" is \"%.32s\"; absolute is supported",
                  json->file, positions);
  out->norm_epsilon = (float)epsilon;
  return rc;
}

static const char *const names[] = {"BertModel", "BertForMaskedLM", NULL};

const struct lls_architecture lls_bert = {
    .title = "BERT",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"", "bert."},
            .embedding = "embeddings.word_embeddings",
            .positions = "embeddings.position_embeddings",
            .types = "embeddings.token_type_embeddings",
            .embedding_norm = "embeddings.LayerNorm",
            .layers = "encoder.layer.",
            .attention_norm = "attention.output.LayerNorm",
            .mlp_norm = "output.LayerNorm",
            .q = "attention.self.query",
            .k = "attention.self.key",
            .v = "attention.self.value",
            .output = "attention.output.dense",
            .up = "intermediate.dense",
            .down = "output.dense",
        },
};
