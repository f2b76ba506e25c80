/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GTE (arXiv 2407.19669: gte-base-en-v1.5, gte-multilingual-base, and
 * snowflake-arctic-embed-m-v2.0), whose folders call the class "New": BERT whose
 * positions rotate, with a gated MLP whose last product alone has a bias.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Reads a scaling by "ntk" (https://kexue.fm/archives/9706, as GTE's own program has
 * it): theta times the factor, and angles divided by factor^(2 / dims). */
static int configure_ntk(const struct lls_json *scaling, struct lls_model_config *out,
                         struct lls_error *err)
{
  double factor = 0;
  int rc = lls_json_real_or(scaling, "factor", 0, &factor, err);
  if (rc == 0 && !(factor >= 1))
    rc = lls_fail(err, -EINVAL, "%s: the \"factor\" of rope scaling should be 1 or more",
                  scaling->file);
  if (rc == 0 && lls_json_get(scaling, "mixed_b") != NULL)
    rc = lls_fail(err, -ENOTSUP, "%s: \"mixed_b\" is not supported", scaling->file);
  out->rope.scaling = LLS_ROPE_LINEAR;
  out->rope.factor = pow(factor, 2.0 / out->head_dim);
  out->rope.theta *= factor;
  return rc;
}

static int configure_rope(const struct lls_json *json, struct lls_model_config *out,
                          struct lls_error *err)
{
  struct lls_json scaling = lls_json_inside(json, lls_json_get(json, "rope_scaling"));
  const char *type = "";
  if (!json_is_object(scaling.root))
    return lls_config_rope(json, "rope_theta", 1.0, out, err);
  int rc = lls_json_string_or(&scaling, "type", type, &type, err);
  if (rc < 0 || strcmp(type, "ntk") != 0)
    return rc < 0 ? rc : lls_config_rope(json, "rope_theta", 1.0, out, err);
  out->rope.dims = out->head_dim;
  rc = lls_json_real_or(json, "rope_theta", 10000.0, &out->rope.theta, err);
  return rc < 0 ? rc : configure_ntk(&scaling, out, err);
}

/* Refuses what the class can do and no published embedder does. */
static int check_switches(const struct lls_json *json, struct lls_error *err)
{
  const struct {
    const char *key, *value;
  } texts[] = {{"layer_norm_type", "layer_norm"}, {"position_embedding_type", "rope"}};
  static const char *const off[] = {"logn_attention_scale", NULL};
  int rc = lls_config_all_off(json, off, err);
  for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof texts[0]; i++) {
    const char *text;
    rc = lls_json_string_or(json, texts[i].key, texts[i].value, &text, err);
    if (rc == 0 && strcmp(text, texts[i].value) != 0)
      rc = lls_fail(err, -ENOTSUP, "%s: \"%s\" is \"%.32s\"; %s is supported", json->file,
                    texts[i].key, text, texts[i].value);
  }
  return rc;
}

/* Keys about another program. */
static const char *const unused[] = {"logn_attention_clip1", "pack_qkv", "unpad_inputs",
                                     "use_memory_efficient_attention", NULL};

/* Reads the number of token types, which may be 0. */
static int read_types(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  const json_t *types = lls_json_get(json, "type_vocab_size");
  if (json_is_integer(types) && json_integer_value(types) == 0)
    return 0;
  return lls_json_size_or(json, "type_vocab_size", 1, &out->token_types, err);
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_sizes(json, out, "intermediate_size", err);
  if (rc == 0)
    rc = lls_config_layer_norm(json, "layer_norm_eps", out, err);
  if (rc == 0)
    rc = lls_config_activation(json, "hidden_act", "gelu", &out->activation, err);
  if (rc == 0)
    rc = configure_rope(json, out, err);
  if (rc == 0)
    rc = check_switches(json, err);
  if (rc == 0)
    rc = read_types(json, out, err);
  lls_config_pass_over(json, unused);
  out->norm_place = LLS_NORM_SUM;
  out->final_norm = false;
  out->gated = out->qkv_bias = out->output_bias = out->down_bias = true;
  return rc;
}

static const char *const names[] = {"NewModel", "GteModel", NULL};

const struct lls_architecture lls_gte = {
    .title = "GTE",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors =
        {
            .prefixes = {"", "new."},
            .embedding = "embeddings.word_embeddings",
            .types = "embeddings.token_type_embeddings",
            .embedding_norm = "embeddings.LayerNorm",
            .layers = "encoder.layer.",
            .attention_norm = "attn_ln",
            .mlp_norm = "mlp_ln",
            .stacked_qkv = "attention.qkv_proj",
            .output = "attention.o_proj",
            .stacked_up_gate = "mlp.up_gate_proj",
            .down = "mlp.down_proj",
        },
};
