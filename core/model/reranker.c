/* SPDX-License-Identifier: Apache-2.0 */
/* See reranker.h. */
#include "core/model/reranker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/gguf.h"
#include "core/model/model_text.h"

/* ---- signs of a reranker ----------------------------------------------------------- */

/* Reads the ids of sentence-transformers' LogitScore module. Returns 1 if the folder has
 * one, 0 if not, or a negative errno. */
static int read_logit_score(const char *folder, struct lls_score_config *out,
                            struct lls_error *err)
{
  struct lls_json json;
  uint32_t yes, no;
  int rc = lls_json_read(folder, "1_LogitScore/config.json", &json, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  rc = lls_json_size(&json, "true_token_id", &yes, err);
  if (rc == 0)
    rc = lls_json_size_or(&json, "false_token_id", 0, &no, err);
  lls_json_close(&json);
  if (rc < 0)
    return rc;
  out->yes = (int32_t)yes;
  out->no = no > 0 ? (int32_t)no : -1;
  return 1;
}

#define NAME "Qwen3-Reranker"

/* Returns true if the last part of the path, or the repository's name in the hub's
 * cache, has the name. */
static bool is_named(const char *path)
{
  const char *cached = strstr(path, "/models--"), *last = strrchr(path, '/');
  const char *part = cached != NULL ? cached + 1 : last != NULL ? last + 1 : path;
  const char *found = strcasestr(part, NAME), *end = strchr(part, '/');
  return found != NULL && (end == NULL || found < end);
}

/* Returns true if a title of the model's card has the name. */
static bool is_titled(const char *folder)
{
  char path[4096], line[512];
  bool found = false;
  snprintf(path, sizeof path, "%s/README.md", folder);
  FILE *card = fopen(path, "re");
  while (card != NULL && !found && fgets(line, sizeof line, card) != NULL)
    found = strncmp(line, "# " NAME, strlen("# " NAME)) == 0;
  if (card != NULL)
    fclose(card);
  return found;
}

/* ---- the two tokens ---------------------------------------------------------------- */

static int find_token(const struct lls_tokenizer *tokenizer, const char *folder,
                      const char *word, int32_t *out, struct lls_error *err)
{
  int32_t *ids;
  size_t n;
  int rc = lls_tokenizer_encode(tokenizer, word, strlen(word), false, &ids, &n, err);
  if (rc < 0)
    return rc;
  *out = n == 1 ? ids[0] : -1;
  free(ids);
  return n == 1 ? 0
                : lls_fail(err, -ENOTSUP,
                           "%s: a reranker's answer \"%.32s\" is %zu tokens of its "
                           "tokeniser; one token is supported",
                           folder, word, n);
}

static int find_tokens(const char *folder, const json_t *words,
                       struct lls_score_config *out, struct lls_error *err)
{
  const char *no = json_string_value(json_array_get(words, 0));
  const char *yes = json_string_value(json_array_get(words, 1));
  struct lls_tokenizer *tokenizer;
  if (words != NULL && (json_array_size(words) != 2 || no == NULL || yes == NULL))
    return lls_fail(err, -ENOTSUP,
                    "%s/config.json: \"classifier_from_token\" should be two words, such "
                    "as [\"no\", \"yes\"]",
                    folder);
  int rc = lls_model_tokenizer(folder, &tokenizer, err);
  if (rc < 0)
    return rc;
  rc = find_token(tokenizer, folder, no != NULL ? no : "no", &out->no, err);
  if (rc == 0)
    rc = find_token(tokenizer, folder, yes != NULL ? yes : "yes", &out->yes, err);
  lls_tokenizer_free(tokenizer);
  return rc;
}

int lls_reranker_find(const char *folder, const struct lls_json *json,
                      enum lls_model_task task, struct lls_model_config *config,
                      struct lls_error *err)
{
  struct lls_score_config score = {.rows = config->vocab};
  const json_t *words = lls_json_get(json, "classifier_from_token");
  lls_json_get(json, "is_original_qwen3_reranker"); /* vLLM's, which changes no result */
  if (task == LLS_TASK_TEXT || config->encoder || config->labels > 0)
    return 0;
  bool qwen3 = config->architecture == &lls_qwen3 && !config->headless;
  if (task == LLS_TASK_RERANK && !qwen3)
    return lls_fail(err, -ENOTSUP,
                    "%s: [model] task = rerank is supported for Qwen3ForCausalLM, whose "
                    "prompt is known; the model is %s",
                    folder, config->architecture->title);
  int rc = qwen3 ? read_logit_score(folder, &score, err) : 0;
  if (rc == 0 && qwen3 &&
      (task == LLS_TASK_RERANK || words != NULL || is_named(folder) || is_titled(folder)))
    rc = find_tokens(folder, words, &score, err) == 0 ? 1 : -ENOTSUP;
  if (rc <= 0)
    return rc;
  if (score.yes >= (int32_t)config->vocab || score.no >= (int32_t)config->vocab)
    return lls_fail(err, -EINVAL,
                    "%s: a reranker's answers are tokens %d and %d; the model has %u",
                    folder, score.yes, score.no, config->vocab);
  config->score = score;
  config->labels = 1;
  return 0;
}

/* ---- the prompt -------------------------------------------------------------------- */

/* As in the model's card. */
static const char published[] =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the "
    "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n"
    "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

char *lls_reranker_form(const char *folder)
{
  struct lls_gguf_file *file;
  struct lls_error ignored;
  json_t *own = NULL;
  if (!lls_is_gguf(folder) || lls_gguf_file_open(folder, &file, &ignored) < 0)
    return strdup(published);
  if (lls_gguf_value(file, "tokenizer.chat_template.rerank", &own, &ignored) < 0)
    own = NULL;
  lls_gguf_file_close(file);
  const char *text = json_string_value(own);
  bool usable = text != NULL && strstr(text, "{query}") != NULL &&
                strstr(text, "{document}") != NULL;
  char *form = strdup(usable ? text : published);
  json_decref(own);
  return form;
}
