/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders in GGUF files: BERT's layers under the architecture "bert", the name that
 * llama.cpp's converter uses for BERT and RoBERTa, and under "nomic-bert". In both,
 * position vectors begin with the one of a text's first token, so both become a BertModel
 * here. The converter omits the pooler of BERT's cross-encoders, without which the scores
 * differ: files with a head are refused. ModernBERT is "modern-bert", head included.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/gguf.h"

static bool looks_back_only(const struct lls_gguf *g)
{
  json_t *value = NULL;
  struct lls_error ignored;
  char key[96];
  snprintf(key, sizeof key, "%s.attention.causal", g->architecture->name);
  lls_gguf_value(g->files[0], key, &value, &ignored);
  bool causal = json_is_true(value);
  json_decref(value);
  return causal;
}

/* Sets the rows that ModernBERT's head reads. Older files lack the key: llama.cpp takes
 * the mean of a text's rows then. */
static int describe_modern_head(const struct lls_gguf *g, json_t *config,
                                struct lls_error *err)
{
  static const char *const modes[] = {"none", "mean", "cls"};
  int64_t type = lls_gguf_integer(g->files[0], "modern-bert.classifier.pooling_type", 1);
  if (type != 1 && type != 2)
    return lls_fail(err, -ENOTSUP,
                    "%s: modern-bert.classifier.pooling_type is %lld: 1 (mean) and 2 "
                    "(cls) are supported",
                    g->files[0]->path, (long long)type);
  json_object_set_new(config, "classifier_pooling", json_string(modes[type]));
  if (lls_gguf_tensor(g, "cls.bias") != NULL)
    json_object_set_new(config, "classifier_bias", json_true());
  return 0;
}

static int describe_head(const struct lls_gguf *g, json_t *config, struct lls_error *err)
{
  const struct lls_gguf_tensor *pooler = lls_gguf_tensor(g, "cls.weight"),
                               *head = lls_gguf_tensor(g, "cls.output.weight");
  if (pooler == NULL && head == NULL)
    return 0;
  if (pooler == NULL || head == NULL)
    return lls_fail(err, -ENOTSUP,
                    "%s: cross-encoders with a head of one layer are not supported in a "
                    "GGUF file, which lacks BERT's pooler; they are as a Hugging Face "
                    "folder",
                    g->files[0]->path);
  bool modern = strcmp(g->architecture->name, "modern-bert") == 0;
  json_object_set_new(config, "architectures",
                      json_pack("[s]", modern ? "ModernBertForSequenceClassification"
                                              : LLS_GGUF_CLASSIFIER));
  json_object_set_new(config, "num_labels",
                      json_integer(head->n_dims == 2 ? (json_int_t)head->shape[0] : 1));
  return modern ? describe_modern_head(g, config, err) : 0;
}

int lls_gguf_describe_encoder(const struct lls_gguf *g, json_t *config,
                              struct lls_error *err)
{
  const struct lls_gguf_tensor *types = lls_gguf_tensor(g, "token_types.weight");
  int rc = describe_head(g, config, err);
  if (rc < 0)
    return rc;
  if (looks_back_only(g))
    return lls_fail(err, -ENOTSUP,
                    "%s: %s.attention.causal is true; only attention both ways is "
                    "supported",
                    g->files[0]->path, g->architecture->name);
  /* RoBERTa has one type, which may be stored as a vector. */
  if (types != NULL)
    json_object_set_new(
        config, "type_vocab_size",
        json_integer(types->n_dims == 2 ? (json_int_t)types->shape[0] : 1));
  return 0;
}

int lls_gguf_describe_scores(const struct lls_gguf *g, json_t *config,
                             struct lls_error *err)
{
  const struct lls_gguf_tensor *head = lls_gguf_tensor(g, "cls.output.weight");
  if (head == NULL)
    return 0;
  uint64_t rows = head->n_dims == 2 ? head->shape[0] : 1;
  if (strcmp(g->architecture->name, "qwen3") != 0 || rows > 2)
    return lls_fail(err, -ENOTSUP,
                    "%s: a classifier of %llu labels of architecture %s: rerankers are "
                    "supported with 1 or 2 labels, of qwen3",
                    g->files[0]->path, (unsigned long long)rows, g->architecture->name);
  json_object_set_new(config, "architectures",
                      json_pack("[s]", "Qwen3ForSequenceClassification"));
  json_object_set_new(config, "num_labels", json_integer(1));
  json_object_set_new(config, LLS_GGUF_SCORE_ROWS, json_integer((json_int_t)rows));
  return 0;
}

int lls_gguf_pooling(const char *path, json_t **out, struct lls_error *err)
{
  static const char *const modes[] = {"none", "mean", "cls", "lasttoken", "rank"};
  struct lls_gguf *g;
  char key[96];
  int rc = lls_gguf_open(path, &g, err);
  if (rc < 0)
    return rc;
  snprintf(key, sizeof key, "%s.pooling_type", g->architecture->name);
  int64_t type = lls_gguf_integer(g->files[0], key, -1);
  bool dense = lls_gguf_tensor(g, "dense_2.weight") != NULL;
  lls_gguf_close(g);
  if (type < 0)
    return lls_fail(err, -ENOENT, "%s: has no %s", path, key);
  if (type >= (int64_t)(sizeof modes / sizeof modes[0]))
    return lls_fail(err, -EINVAL, "%s: %s is none of 0 to 4", path, key);
  *out = json_pack("{s:s, s:b}", "pooling_mode", modes[type], LLS_GGUF_DENSE, dense);
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "%s: out of memory", path);
}
