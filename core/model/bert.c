/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (arXiv 1810.04805) and models with its structure (MiniLM, bge, e5), RoBERTa
 * (arXiv 1907.11692) and XLM-RoBERTa: the sum of token, position and type vectors is
 * normed, layers have norms after each addition, attention is bidirectional.
 *
 * A text's vector is computed from the last layer's rows (pooling.h), so the pooler is
 * only read if a head follows it: in cross-encoders, which score a pair of texts.
 */
#include "core/model/labels.h"
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

static int check_both_ways(const struct lls_json *json, struct lls_error *err)
{
  static const char *const keys[] = {"is_decoder", "is_causal"};
  bool causal = false;
  int rc = 0;
  for (size_t i = 0; rc == 0 && !causal && i < sizeof keys / sizeof keys[0]; i++) {
    rc = lls_json_bool_or(json, keys[i], false, &causal, err);
    if (rc == 0 && causal)
      rc = lls_fail(err, -ENOTSUP,
                    "%s: \"%s\" is true; encoders with attention both ways are supported",
                    json->file, keys[i]);
  }
  return rc;
}

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
  return rc < 0 ? rc : check_both_ways(json, err);
}

/* Positions begin after the padding token's id. */
int lls_config_roberta(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  int rc = configure(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "pad_token_id", 1, &out->position_offset, err);
  if (rc < 0)
    return rc;
  out->position_offset++;
  if (out->position_offset >= out->max_context)
    return lls_fail(err, -EINVAL,
                    "%s: \"max_position_embeddings\" is %u, and none is left behind "
                    "\"pad_token_id\"",
                    json->file, out->max_context);
  out->max_context -= out->position_offset;
  return 0;
}

/* ---- heads ------------------------------------------------------------------------- */

/* Reads which function sentence-transformers applies to the head's output; since
 * version 4 it is in an object. */
static int read_score(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  const char *logistic = "torch.nn.modules.activation.Sigmoid", *name;
  int rc = lls_json_string_or(json, "sbert_ce_default_activation_function", logistic,
                              &name, err);
  const json_t *newer =
      json_object_get(lls_json_get(json, "sentence_transformers"), "activation_fn");
  if (json_is_string(newer))
    name = json_string_value(newer);
  if (rc < 0)
    return rc;
  out->plain_score = strcmp(name, "torch.nn.modules.linear.Identity") == 0;
  return out->plain_score || strcmp(name, logistic) == 0
             ? 0
             : lls_fail(err, -ENOTSUP,
                        "%s: scores go through %.64s; Sigmoid and Identity are supported",
                        json->file, name);
}

int lls_config_labels(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  const json_t *names = lls_json_get(json, "id2label");
  int rc = lls_json_size_or(json, "num_labels", 2, &out->labels, err);
  out->classifier.activation = LLS_ACT_TANH;
  if (rc == 0 && json_object_size(names) > 0)
    out->labels = (uint32_t)json_object_size(names);
  if (rc == 0 && out->labels > LLS_MAX_LABELS)
    rc =
        lls_fail(err, -ENOTSUP,
                 "%s: a classifier of %u labels (\"id2label\"): at most %d are supported",
                 json->file, out->labels, LLS_MAX_LABELS);
  return rc < 0 || out->labels > 1 ? rc : read_score(json, out, err);
}

static int configure_classifier(const struct lls_json *json, struct lls_model_config *out,
                                struct lls_error *err)
{
  int rc = configure(json, out, err);
  return rc < 0 ? rc : lls_config_labels(json, out, err);
}

static int configure_roberta_classifier(const struct lls_json *json,
                                        struct lls_model_config *out,
                                        struct lls_error *err)
{
  int rc = lls_config_roberta(json, out, err);
  return rc < 0 ? rc : lls_config_labels(json, out, err);
}

/* ---- names ------------------------------------------------------------------------- */

#define ENCODER_NAMES                                                                    \
  .embedding = "embeddings.word_embeddings",                                             \
  .positions = "embeddings.position_embeddings",                                         \
  .types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm", \
  .layers = "encoder.layer.", .attention_norm = "attention.output.LayerNorm",            \
  .mlp_norm = "output.LayerNorm", .q = "attention.self.query",                           \
  .k = "attention.self.key", .v = "attention.self.value",                                \
  .output = "attention.output.dense", .up = "intermediate.dense", .down = "output.dense"

#define ROBERTA_HEAD .pooler_in_head = "classifier.dense", .head = "classifier.out_proj"

static const char *const names[] = {"BertModel", "BertForMaskedLM", NULL};
static const char *const classifier_names[] = {"BertForSequenceClassification", NULL};
static const char *const roberta_names[] = {"RobertaModel", "RobertaForMaskedLM",
                                            "XLMRobertaModel", "XLMRobertaForMaskedLM",
                                            NULL};
static const char *const roberta_classifier_names[] = {
    "RobertaForSequenceClassification", "XLMRobertaForSequenceClassification", NULL};
static const char *const gguf_classifier_names[] = {LLS_GGUF_CLASSIFIER, NULL};

const struct lls_architecture lls_bert = {
    .title = "BERT",
    .names = names,
    .encoder = true,
    .configure = configure,
    .tensors = {.prefixes = {"", "bert."}, ENCODER_NAMES},
};

const struct lls_architecture lls_bert_classifier = {
    .title = "BERT's cross-encoders",
    .names = classifier_names,
    .encoder = true,
    .configure = configure_classifier,
    .tensors = {.prefixes = {"bert."},
                ENCODER_NAMES,
                .pooler = "pooler.dense",
                .head = "classifier"},
};

const struct lls_architecture lls_roberta = {
    .title = "RoBERTa",
    .names = roberta_names,
    .encoder = true,
    .configure = lls_config_roberta,
    .tensors = {.prefixes = {"", "roberta."}, ENCODER_NAMES},
};

const struct lls_architecture lls_roberta_classifier = {
    .title = "RoBERTa's cross-encoders",
    .names = roberta_classifier_names,
    .encoder = true,
    .configure = configure_roberta_classifier,
    .tensors = {.prefixes = {"roberta."}, ENCODER_NAMES, ROBERTA_HEAD},
};

/* A cross-encoder's table in a GGUF file has no vectors before the first token's: they
 * were cut off at conversion. */
const struct lls_architecture lls_gguf_classifier = {
    .title = "cross-encoders in GGUF files",
    .names = gguf_classifier_names,
    .encoder = true,
    .configure = configure_classifier,
    .tensors = {.prefixes = {""}, ENCODER_NAMES, ROBERTA_HEAD},
};
