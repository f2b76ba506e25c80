/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators that score pairs of texts, such as Qwen3-Reranker: a prompt asks whether a
 * document answers a query, and the score is the logit of "yes" less the logit of "no"
 * in the last row, through the logistic function. Of the head only these two rows are
 * used. A classifier made of such a model stores their difference as its only row.
 */
#ifndef LLS_MODEL_RERANKER_H
#define LLS_MODEL_RERANKER_H

#include "core/model/json.h"
#include "core/model/model_config.h"

/*
 * Finds out whether a generator is a reranker, and sets config->labels and
 * config->score. LLS_TASK_AUTO: if the folder has sentence-transformers' LogitScore
 * module, if config.json has vLLM's "classifier_from_token", or if the name of the
 * folder or file, or the title of its README.md, has "Qwen3-Reranker". Returns 0 or a
 * negative errno.
 */
int lls_reranker_find(const char *folder, const struct lls_json *config_json,
                      enum lls_model_task task, struct lls_model_config *config,
                      struct lls_error *err);

#define LLS_RERANK_INSTRUCTION                                                           \
  "Given a web search query, retrieve relevant passages that answer the query"

/* Allocates the prompt's form, in which {instruction}, {query} and {document} are
 * replaced: a GGUF file's own, or the one that Qwen published. NULL: out of memory. */
char *lls_reranker_form(const char *folder);

#endif
