/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (arXiv 2505.09388): Llama's graph with a norm of each head's query and key. */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc < 0 ? rc : lls_config_qwen_window(json, out, err);
}

/* A classifier of one label, made of a reranker (reranker.h): its row is the difference
 * of two rows of the head. GGUF files have the two. */
static int configure_classifier(const struct lls_json *json, struct lls_model_config *out,
                                struct lls_error *err)
{
  uint32_t rows = 1;
  int rc = configure(json, out, err);
  if (rc == 0)
    rc = lls_config_labels(json, out, err);
  if (rc == 0)
    rc = lls_json_size_or(json, LLS_GGUF_SCORE_ROWS, rows, &rows, err);
  out->score = (struct lls_score_config){.rows = rows, .no = rows == 1 ? -1 : 1};
  out->headless = true;
  return rc;
}

static const char *const names[] = {"Qwen3ForCausalLM", "Qwen3Model", NULL};

static const char *const classifier_names[] = {"Qwen3ForSequenceClassification", NULL};

#define TENSORS                                                                          \
  LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP, LLS_LLAMA_QK_NORMS

const struct lls_architecture lls_qwen3 = {
    .title = "Qwen3",
    .names = names,
    .configure = configure,
    .tensors = {TENSORS},
};

const struct lls_architecture lls_qwen3_classifier = {
    .title = "Qwen3's rerankers",
    .names = classifier_names,
    .configure = configure_classifier,
    .tensors = {TENSORS, .score = "score"},
};
