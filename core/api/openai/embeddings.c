/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/embeddings turns texts into vectors; POST /v1/rerank (in the format of vLLM,
 * Jina and Cohere) and /v1/score (vLLM's) compare texts. A score is the cosine of the
 * two texts' vectors, or the output of a cross-encoder for the pair.
 *
 * Each text or pair is a request of the step loop that generates no tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "core/api/openai/vectors.h"

/* Returns the text of llama.cpp's objects, {"prompt_string": TEXT} and {"content":
 * [{"type": "text", "text": TEXT}, ...]}, or the value itself; a new reference. */
static json_t *plain_input(json_t *value)
{
  size_t i;
  json_t *part, *string = json_object_get(value, "prompt_string");
  json_t *content = json_object_get(value, "content");
  struct lls_text text = {0};
  bool all = json_array_size(content) > 0;
  if (json_is_string(string) && json_object_size(value) == 1)
    return json_incref(string);
  json_array_foreach(content, i, part)
  {
    const char *type = json_string_value(json_object_get(part, "type"));
    json_t *piece = json_object_get(part, "text");
    all = all && type != NULL && strcmp(type, "text") == 0 && json_is_string(piece);
    if (all)
      lls_text_append(&text, json_string_value(piece), json_string_length(piece));
  }
  json_t *plain = all ? json_stringn(text.data != NULL ? text.data : "", text.length)
                      : json_incref(value);
  lls_text_free(&text);
  return plain;
}

static int read_inputs(const struct lls_api_config *config, const json_t *body,
                       const struct lls_api_params *params,
                       struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  size_t i;
  json_t *item, *given = json_object_get(body, "input");
  json_t *input = json_is_array(given) ? json_array() : plain_input(given);
  json_array_foreach(given, i, item)
  {
    json_array_append_new(input, plain_input(item));
  }
  int rc = lls_prompts_read(config, input, "input", params, prompts, error);
  json_decref(input);
  return rc;
}

const struct lls_dialect lls_embeddings = {
    .id_prefix = "embd-",
    .params_of = LLS_EMBEDDINGS,
    .batch_path = "/v1/embeddings",
    .read_prompts = read_inputs,
    .write = lls_vectors_list,
    .error = lls_api_error_json,
};

/* Refuses a task that needs a vector of each token. */
static json_t *translate_task(json_t *body, const struct lls_past *past, void **state,
                              struct lls_unknown_names *unknown,
                              struct lls_api_error *error)
{
  const json_t *task = json_object_get(body, "task");
  const char *name = json_string_value(task);
  (void)past;
  (void)state;
  (void)unknown;
  if (task != NULL && !json_is_null(task) &&
      (name == NULL || strcmp(name, "embed") != 0)) {
    lls_api_fail(error, 400, "unsupported_parameter", "task",
                 "'task' must be \"embed\": this server makes one vector of a text");
    return NULL;
  }
  json_t *form = json_copy(body);
  json_object_del(form, "task");
  return form;
}

static const struct lls_body_member pooling_members[] = {{"task", "string", false},
                                                         {NULL, NULL, false}};

/* POST /pooling, vLLM's: vectors in another shape. */
const struct lls_dialect lls_pooling = {
    .id_prefix = "pool-",
    .members = pooling_members,
    .params_of = LLS_EMBEDDINGS,
    .translate = translate_task,
    .read_prompts = read_inputs,
    .write = lls_vectors_pooling,
    .error = lls_api_error_json,
};

/* POST /classify, vLLM's: the classes of texts. */
const struct lls_dialect lls_classify = {
    .id_prefix = "classify-",
    .params_of = LLS_CLASSIFY,
    .read_prompts = read_inputs,
    .write = lls_classes_list,
    .error = lls_api_error_json,
};

/* ---- texts to be compared ---------------------------------------------------------- */

/* Returns the text of a string or of an object with the member "text". */
static json_t *text_of(json_t *value)
{
  json_t *text = json_is_object(value) ? json_object_get(value, "text") : value;
  return json_is_string(text) ? text : NULL;
}

/* Appends one text or an array of texts. Returns their number, or -1 with *error
 * set. */
static int append_texts(json_t *value, const char *param, json_t *out,
                        struct lls_api_error *error)
{
  size_t n = json_is_array(value) ? json_array_size(value) : 1;
  for (size_t i = 0; i < n; i++) {
    json_t *text = text_of(json_is_array(value) ? json_array_get(value, i) : value);
    if (text == NULL)
      return lls_api_fail(error, 400, NULL, param,
                          "'%s' must be a string, an object with a string \"text\", or "
                          "an array of these",
                          param);
    json_array_append(out, text);
  }
  if (n == 0)
    return lls_api_fail(error, 400, NULL, param, "'%s' must not be empty", param);
  return (int)n;
}

/* Makes pairs for a model that scores them: each of the last n texts with its partner
 * among the texts before them, or with the only one. */
static int read_as_pairs(const struct lls_api_config *config, const json_t *body,
                         const json_t *texts, size_t n, const char *param,
                         const struct lls_api_params *params,
                         struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  size_t n_first = json_array_size(texts) - n;
  struct lls_api_pair *pairs = calloc(n, sizeof *pairs);
  for (size_t i = 0; pairs != NULL && i < n; i++) {
    const json_t *a = text_of(json_array_get(texts, n_first == 1 ? 0 : i));
    const json_t *b = text_of(json_array_get(texts, n_first + i));
    pairs[i] = (struct lls_api_pair){json_string_value(a), json_string_value(b),
                                     json_string_length(a), json_string_length(b),
                                     json_object_get(body, "instruction")};
  }
  int rc = pairs != NULL
               ? lls_prompts_pairs(config, pairs, n, param, params, prompts, error)
               : lls_api_fail(error, 503, NULL, NULL, "out of memory");
  free(pairs);
  return rc;
}

/* Makes prompts of the texts; the last n are compared with the texts before them.
 * Errors name the parameter `param`. */
static int read_texts(const struct lls_api_config *config, const json_t *body,
                      json_t *texts, size_t n, const char *param,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  int rc = config->encoder.scores_pairs
               ? read_as_pairs(config, body, texts, n, param, params, prompts, error)
               : lls_prompts_read(config, texts, param, params, prompts, error);
  json_decref(texts);
  return rc;
}

/* Reads a query and documents; the query is the first prompt. */
static int read_documents(const struct lls_api_config *config, const json_t *body,
                          const struct lls_api_params *params,
                          struct lls_api_prompt_list *prompts,
                          struct lls_api_error *error)
{
  json_t *query = json_object_get(body, "query"), *texts = json_array();
  json_t *documents = json_object_get(body, "documents");
  if (text_of(query) == NULL) {
    json_decref(texts);
    return lls_api_fail(error, 400, NULL, "query", "'query' must be a string");
  }
  if (!json_is_array(documents)) {
    json_decref(texts);
    return lls_api_fail(error, 400, NULL, "documents",
                        "'documents' must be an array of strings");
  }
  json_array_append(texts, text_of(query));
  int n = append_texts(documents, "documents", texts, error);
  if (n < 0) {
    json_decref(texts);
    return -1;
  }
  return read_texts(config, body, texts, (size_t)n, "documents", params, prompts, error);
}

/* Makes documents of TEI's "texts". */
static json_t *translate_texts(json_t *body, const struct lls_past *past, void **state,
                               struct lls_unknown_names *unknown,
                               struct lls_api_error *error)
{
  (void)past;
  (void)state;
  (void)unknown;
  json_t *form = json_copy(body), *shown = json_object_get(body, "return_text");
  if (form == NULL) {
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
    return NULL;
  }
  json_object_set(form, "documents", json_object_get(body, "texts"));
  json_object_set_new(form, "return_documents", json_boolean(json_is_true(shown)));
  json_object_del(form, "texts");
  json_object_del(form, "return_text");
  return form;
}

static const struct lls_dialect rerank_texts = {
    .id_prefix = "rerank-",
    .params_of = LLS_RERANK,
    .translate = translate_texts,
    .read_prompts = read_documents,
    .write = lls_vectors_texts,
    .error = lls_api_error_json,
};

static const struct lls_dialect *pick_ranking(const json_t *body)
{
  bool texts = json_object_get(body, "texts") != NULL &&
               json_object_get(body, "documents") == NULL;
  return texts ? &rerank_texts : &lls_rerank;
}

const struct lls_dialect lls_rerank = {
    .id_prefix = "rerank-",
    .pick = pick_ranking,
    .params_of = LLS_RERANK,
    .read_prompts = read_documents,
    .write = lls_vectors_ranking,
    .error = lls_api_error_json,
};

/* Appends text_1, then text_2: one text to compare with many, or two lists of equal
 * length. */
static int append_pairs(const json_t *body, json_t *texts, struct lls_api_error *error)
{
  json_t *first = json_object_get(body, "text_1");
  json_t *second = json_object_get(body, "text_2");
  int n_first = append_texts(first, "text_1", texts, error);
  int n_second = n_first < 0 ? -1 : append_texts(second, "text_2", texts, error);
  if (n_second < 0)
    return -1;
  if (n_first == 1 || n_first == n_second)
    return 0;
  return lls_api_fail(error, 400, NULL, "text_1",
                      "'text_1' has %d texts and 'text_2' %d: 'text_1' must have one, or "
                      "as many",
                      n_first, n_second);
}

static int read_pairs(const struct lls_api_config *config, const json_t *body,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  json_t *texts = json_array();
  if (append_pairs(body, texts, error) < 0) {
    json_decref(texts);
    return -1;
  }
  json_t *second = json_object_get(body, "text_2");
  size_t n = json_is_array(second) ? json_array_size(second) : 1;
  int rc = read_texts(config, body, texts, n, "text_2", params, prompts, error);
  if (rc == 0)
    prompts->n_second = n;
  return rc;
}

const struct lls_dialect lls_score = {
    .id_prefix = "score-",
    .params_of = LLS_SCORE,
    .read_prompts = read_pairs,
    .write = lls_vectors_scores,
    .error = lls_api_error_json,
};
