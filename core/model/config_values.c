/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the values of config.json that architectures share; see architecture.h. */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

int lls_config_sizes(const struct lls_json *json, struct lls_model_config *out,
                     const char *ffn_key, struct lls_error *err)
{
  const struct {
    const char *key, *older[3]; /* keys of older models */
    uint32_t *value;
  } sizes[] = {
      {"hidden_size", {"n_embd", "d_model"}, &out->hidden},
      {"num_hidden_layers", {"n_layer", "n_layers"}, &out->layers},
      {"num_attention_heads", {"n_head", "n_heads"}, &out->heads},
      {"vocab_size", {NULL}, &out->vocab},
      {"max_position_embeddings",
       {"n_positions", "max_seq_len", "seq_length"},
       &out->max_context},
      {ffn_key, {NULL}, &out->ffn},
  };
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof sizes[0]; i++) {
    const char *key = sizes[i].key;
    for (size_t k = 0; key != NULL && k < 3 && sizes[i].older[k] != NULL; k++)
      if (json_object_get(json->root, key) == NULL &&
          json_object_get(json->root, sizes[i].older[k]) != NULL)
        key = sizes[i].older[k];
    if (key != NULL)
      rc = lls_json_size(json, key, sizes[i].value, err);
  }
  if (rc == 0)
    rc = lls_json_size_or(json, "num_key_value_heads", out->heads, &out->kv_heads, err);
  if (rc == 0)
    rc =
        lls_json_size_or(json, "head_dim", out->hidden / out->heads, &out->head_dim, err);
  if (rc < 0)
    return rc;
  out->embed_dim = out->hidden;
  if (lls_json_get(json, "head_dim") == NULL && out->hidden % out->heads != 0)
    return lls_fail(err, -EINVAL,
                    "%s: a hidden size of %u cannot be divided among %u heads",
                    json->file, out->hidden, out->heads);
  return 0;
}

int lls_config_layer_norm(const struct lls_json *json, const char *key,
                          struct lls_model_config *out, struct lls_error *err)
{
  double epsilon;
  int rc = lls_json_real_or(json, key, 1e-5, &epsilon, err);
  out->norm = LLS_NORM_LAYER;
  out->norm_affine = out->final_norm = true;
  out->norm_epsilon = (float)epsilon;
  return rc;
}

void lls_config_pass_over(const struct lls_json *json, const char *const *keys)
{
  for (size_t i = 0; keys[i] != NULL; i++)
    lls_json_get(json, keys[i]);
}

int lls_config_all_off(const struct lls_json *json, const char *const *keys,
                       struct lls_error *err)
{
  for (size_t i = 0; keys[i] != NULL; i++) {
    const json_t *value = lls_json_get(json, keys[i]);
    if (value != NULL && !lls_json_is_off(value))
      return lls_fail(err, -ENOTSUP, "%s: \"%s\" is set; only false is supported",
                      json->file, keys[i]);
  }
  return 0;
}

void lls_config_scale_branches(struct lls_model_config *out, double factor)
{
  double scale = out->embedding_scale > 0 ? (double)out->embedding_scale : 1;
  out->embedding_scale = (float)(scale / factor);
  out->norm_epsilon = (float)((double)out->norm_epsilon / (factor * factor));
}

int lls_config_activation(const struct lls_json *json, const char *key,
                          const char *fallback, enum lls_activation *out,
                          struct lls_error *err)
{
  static const struct {
    const char *name;
    enum lls_activation value;
  } known[] = {
      {"silu", LLS_ACT_SILU},           {"swish", LLS_ACT_SILU},
      {"relu", LLS_ACT_RELU},           {"relu2", LLS_ACT_SQUARED_RELU},
      {"gelu", LLS_ACT_GELU},           {"gelu_new", LLS_ACT_GELU_TANH},
      {"gelu_fast", LLS_ACT_GELU_TANH}, {"gelu_pytorch_tanh", LLS_ACT_GELU_TANH},
      {"gelu_python", LLS_ACT_GELU},
  };
  const char *name;
  int rc = lls_json_string_or(json, key, fallback, &name, err);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, name) == 0) {
      *out = known[i].value;
      return 0;
    }
  }
  return lls_fail(err, -ENOTSUP,
                  "%s: \"%s\" is \"%.32s\"; silu, relu, gelu and its tanh approximation "
                  "are supported",
                  json->file, key, name);
}

void lls_config_window(struct lls_model_config *out, uint32_t window)
{
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].window = window;
}

int lls_config_two_kinds(const struct lls_json *json, uint32_t layers, const char *usual,
                         const char *other, bool *is_other, bool *found,
                         struct lls_error *err)
{
  const json_t *types = lls_json_get(json, "layer_types");
  *found = types != NULL;
  if (types == NULL)
    return 0;
  if (json_array_size(types) != layers)
    return lls_fail(err, -EINVAL, "%s: \"layer_types\" should be a list of %u names",
                    json->file, layers);
  for (uint32_t i = 0; i < layers && i < LLS_MAX_LAYERS; i++) {
    const char *type = json_string_value(json_array_get(types, i));
    is_other[i] = type != NULL && strcmp(type, other) == 0;
    if (!is_other[i] && (type == NULL || strcmp(type, usual) != 0))
      return lls_fail(err, -ENOTSUP,
                      "%s: \"layer_types\" has \"%.32s\"; %s and %s are supported",
                      json->file, type != NULL ? type : "", usual, other);
  }
  return 0;
}

int lls_config_layer_types(const struct lls_json *json, struct lls_model_config *out,
                           uint32_t window, bool *found, struct lls_error *err)
{
  bool slides[LLS_MAX_LAYERS];
  int rc = lls_config_two_kinds(json, out->layers, "full_attention", "sliding_attention",
                                slides, found, err);
  for (uint32_t i = 0; rc == 0 && *found && i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].window = slides[i] ? window : 0;
  return rc;
}

uint32_t lls_widest_window(const struct lls_model_config *c)
{
  uint32_t widest = 0;
  for (uint32_t i = 0; i < c->layers; i++) {
    if (c->layer[i].window == 0)
      return 0;
    widest = c->layer[i].window > widest ? c->layer[i].window : widest;
  }
  return widest;
}
