/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata of a GGUF file under its architecture's name. Each key describes the graph,
 * so a key that is neither read nor known to change nothing is refused. The keys that
 * are read are listed here; those with a key in config.json are checked as in a folder
 * (config_keys.h). Zero, false and empty mean "not used" in these files.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/gguf.h"
#include "core/model/json.h"

/* ---- keys of config.json ---- */

enum need { MAY_BE, NEEDED, RMS_NORMS, LAYER_NORMS };

/* Keys without the architecture's name, and the models that require them. */
static const struct {
  const char *own, *folder;
  enum need need;
} keys[] = {
    {"block_count", "num_hidden_layers", NEEDED},
    {"embedding_length", "hidden_size", NEEDED},
    {"feed_forward_length", "intermediate_size", NEEDED},
    {"attention.head_count", "num_attention_heads", NEEDED},
    {"attention.head_count_kv", "num_key_value_heads", MAY_BE},
    {"attention.key_length", "head_dim", MAY_BE},
    {"context_length", "max_position_embeddings", NEEDED},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", RMS_NORMS},
    {"attention.layer_norm_epsilon", "layer_norm_eps", LAYER_NORMS},
    {"rope.freq_base", "rope_theta", MAY_BE},
    {"rope.freq_base_swa", "rope_local_base_freq", MAY_BE},
    {"attention.sliding_window", "sliding_window", MAY_BE},
    {"attention.sliding_window_pattern", "sliding_window_pattern", MAY_BE},
    {"attn_logit_softcapping", "attn_logit_softcapping", MAY_BE},
    {"final_logit_softcapping", "final_logit_softcapping", MAY_BE},
    {"expert_used_count", "num_experts_per_tok", MAY_BE},
    {"expert_feed_forward_length", "moe_intermediate_size", MAY_BE},
    {"expert_weights_norm", "norm_topk_prob", MAY_BE},
};

/* Returns the key of config.json in the architecture's own list, or NULL. */
static const char *own_key(const struct lls_gguf_architecture *a, const char *own)
{
  for (const struct lls_gguf_pair *p = a->keys; p != NULL && p->folder != NULL; p++)
    if (strcmp(p->file, own) == 0)
      return p->folder;
  return NULL;
}

static bool is_copied(const struct lls_gguf_architecture *a, const char *own)
{
  if (own_key(a, own) != NULL)
    return true;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (strcmp(keys[i].own, own) == 0)
      return true;
  return false;
}

const char *lls_gguf_key_of(const char *name)
{
  if (strcmp(name, "layer_types") == 0)
    name = "sliding_window_pattern";
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (strcmp(keys[i].folder, name) == 0)
      return keys[i].own;
  return NULL;
}

static int missing(const struct lls_gguf *g, const char *key, struct lls_error *err)
{
  return lls_fail(err, -EINVAL, "%s: %s is missing in the metadata", g->files[0]->path,
                  key);
}

static bool is_needed(const struct lls_gguf *g, enum need need)
{
  bool layer = g->architecture->encoder || g->architecture->layer_norms;
  return need == NEEDED || need == (layer ? LAYER_NORMS : RMS_NORMS);
}

/* Removes a window of 0 tokens, which files of Phi-4 have for no window. Takes over the
 * value. */
static json_t *none_for_0(const char *own, json_t *value)
{
  if (strcmp(own, "attention.sliding_window") != 0 || !json_is_integer(value) ||
      json_integer_value(value) != 0)
    return value;
  json_decref(value);
  return json_null();
}

/* Converts a pattern of windows: it is a number, or says for each layer whether it
 * slides, which folders store as "layer_types". */
static void copy_pattern(json_t *config)
{
  size_t i;
  const json_t *slides, *pattern = json_object_get(config, "sliding_window_pattern");
  if (!json_is_array(pattern))
    return;
  json_t *types = json_array();
  json_array_foreach((json_t *)pattern, i, slides)
  {
    bool on = json_is_true(slides) || json_integer_value(slides) != 0;
    json_array_append_new(types,
                          json_string(on ? "sliding_attention" : "full_attention"));
  }
  json_object_set_new(config, "layer_types", types);
  json_object_del(config, "sliding_window_pattern");
}

/* Copies one key under `folder`. */
static int copy_key(const struct lls_gguf *g, json_t *config, const char *own,
                    const char *folder, enum need need, struct lls_error *err)
{
  char key[96];
  json_t *value;
  snprintf(key, sizeof key, "%s.%s", g->architecture->name, own);
  int rc = lls_gguf_value(g->files[0], key, &value, err);
  if (rc < 0)
    return rc;
  /* where all layers are mixtures their own key says it */
  bool width = strcmp(own, "feed_forward_length") == 0 && lls_gguf_experts(g) > 0;
  if (value == NULL && is_needed(g, need) && !width)
    return missing(g, key, err);
  if (value != NULL)
    json_object_set_new(config, folder, none_for_0(own, value));
  return 0;
}

int lls_gguf_copy_keys(const struct lls_gguf *g, json_t *config, struct lls_error *err)
{
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof keys / sizeof keys[0]; i++)
    if (own_key(g->architecture, keys[i].own) == NULL)
      rc = copy_key(g, config, keys[i].own, keys[i].folder, keys[i].need, err);
  const struct lls_gguf_pair *own = g->architecture->keys;
  for (; rc == 0 && own != NULL && own->folder != NULL; own++)
    rc = copy_key(g, config, own->file, own->folder, MAY_BE, err);
  copy_pattern(config);
  return rc;
}

/* ---- all other keys ---- */

#define RANK 4 /* a value of pooling_type */

enum rule {
  READ,    /* read elsewhere, or unrelated to the graph */
  TRUE,    /* true is accepted */
  ONE,     /* 1 is accepted: one group, a factor, a softmax */
  HEAD,    /* the size of a head is accepted */
  ROTATED, /* the number of rotated dimensions is accepted */
  SCALE,   /* the scale of scores that the model has anyway is accepted */
  POOLED,  /* all but RANK accepted, in models that generate without scores */
  MODERN,  /* accepted in ModernBERT, where it is read */
  SOFTMAX, /* 1 is accepted; for gpt-oss also 3, which is equivalent there */
};

static const struct {
  const char *own;
  enum rule rule;
} rules[] = {
    {"vocab_size", READ},
    {"tensor_data_layout", READ},
    {"pooling_type", POOLED},
    {"classifier.output_labels", READ},
    {"classifier.pooling_type", MODERN}, /* lls_gguf_describe_encoder */
    {"decoder_start_token_id", READ},
    {"expert_count", READ},
    {"rope.dimension_count", READ},
    {"rope.scaling.type", READ},
    {"rope.scaling.factor", READ},
    {"rope.scaling.finetuned", READ},
    {"rope.scaling.original_context_length", READ},
    {"rope.scaling.attn_factor", READ},
    {"rope.scaling.yarn_beta_fast", READ},
    {"rope.scaling.yarn_beta_slow", READ},
    {"rope.scaling.yarn_ext_factor", ONE},
    {"rope.scaling.yarn_attn_factor", ONE},
    {"rope.scale_linear", ONE},
    {"attention.causal", TRUE},
    {"attention.value_length", HEAD},
    {"attention.key_length_swa", HEAD},
    {"attention.value_length_swa", HEAD},
    {"rope.dimension_count_swa", ROTATED},
    {"attention.scale", SCALE},
    {"logit_scale", ONE},
    {"residual_scale", ONE},
    {"embedding_scale", ONE},
    {"expert_weights_scale", ONE},
    {"expert_group_count", ONE},
    {"expert_group_used_count", ONE},
    {"interleave_moe_layer_step", ONE},
    {"expert_gating_func", SOFTMAX},
    {"rope.dimension_sections", READ}, /* equal for text: one number a position */
    {"n_deepstack_layers", READ},      /* layers that read images */
    {"dense_2_feat_in", READ},         /* dense.c */
    {"dense_2_feat_out", READ},
    {"dense_3_feat_in", READ},
    {"dense_3_feat_out", READ},
};

static double own_number(const struct lls_gguf *g, const char *own)
{
  char key[96];
  snprintf(key, sizeof key, "%s.%s", g->architecture->name, own);
  return (double)lls_gguf_integer(g->files[0], key, 0);
}

/* Returns the dimensions of a head, as config.json would have them. */
static double head_size(const struct lls_gguf *g)
{
  double size = own_number(g, "attention.key_length");
  double heads = own_number(g, "attention.head_count");
  return size > 0 || heads <= 0 ? size : own_number(g, "embedding_length") / heads;
}

static double score_scale(const struct lls_gguf *g, const json_t *config)
{
  double scalar = json_number_value(json_object_get(config, "query_pre_attn_scalar"));
  return 1 / sqrt(scalar > 0 ? scalar : head_size(g));
}

static double wanted(const struct lls_gguf *g, const json_t *config, enum rule rule)
{
  if (rule == HEAD)
    return head_size(g);
  if (rule == SCALE)
    return score_scale(g, config);
  if (rule != ROTATED)
    return 1;
  double dims = own_number(g, "rope.dimension_count");
  return dims > 0 ? dims : head_size(g);
}

static bool is_unused(const json_t *value)
{
  return lls_json_is_off(value) ||
         (json_is_number(value) && json_number_value(value) == 0);
}

static bool makes_vectors(const struct lls_gguf *g)
{
  return g->architecture->encoder || g->architecture->both_ways;
}

static bool is_fine(const struct lls_gguf *g, const json_t *config, const char *own,
                    const json_t *value)
{
  double is = json_number_value(value);
  size_t i = 0;
  while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].own, own) != 0)
    i++;
  if (i == sizeof rules / sizeof rules[0])
    return is_unused(value);
  enum rule rule = rules[i].rule;
  if (rule == TRUE) /* gguf_encoder.c reads it for encoders */
    return makes_vectors(g) || json_is_true(value);
  if (rule == POOLED)
    return makes_vectors(g) || is != RANK ||
           lls_gguf_tensor(g, "cls.output.weight") != NULL;
  if (rule == MODERN)
    return strcmp(g->architecture->name, "modern-bert") == 0;
  return rule == READ || (json_is_number(value) && is == 0) ||
         (json_is_number(value) && fabs(is - wanted(g, config, rule)) < 1e-5) ||
         (rule == SOFTMAX && is == 3 && strcmp(g->architecture->name, "gpt-oss") == 0);
}

static int refuse(const struct lls_gguf *g, const char *key, const json_t *value,
                  struct lls_error *err)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(7));
  int rc = lls_fail(err, -ENOTSUP,
                    "%s: %.100s is %.60s in the metadata, which is not supported of "
                    "architecture %s: the model may compute something else by it",
                    g->files[0]->path, key, text != NULL ? text : "set",
                    g->architecture->name);
  free(text);
  return rc;
}

int lls_gguf_check_keys(const struct lls_gguf *g, const json_t *config,
                        struct lls_error *err)
{
  const char *name = g->architecture->name;
  size_t length = strlen(name);
  int rc = 0;
  for (const struct lls_gguf_entry *e = g->files[0]->entries; rc == 0 && e != NULL;
       e = e->hh.next) {
    json_t *value = NULL;
    if (strncmp(e->key, name, length) != 0 || e->key[length] != '.' ||
        is_copied(g->architecture, e->key + length + 1))
      continue;
    rc = lls_gguf_value(g->files[0], e->key, &value, err);
    if (rc == 0 && !is_fine(g, config, e->key + length + 1, value))
      rc = refuse(g, e->key, value, err);
    json_decref(value);
  }
  return rc;
}
