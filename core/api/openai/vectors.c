/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes answers made of vectors: a list of vectors, or the scores derived from them. A
 * list is written as text, not as a tree of JSON values: 2,048 vectors of 4,096 values
 * would take a tree of 400 MB.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/openai/vectors.h"
#include "core/base/json_memory.h"

/* ---- numbers ----------------------------------------------------------------------- */

/* Divides the first `columns` values of a vector by their length. The other values are
 * not used. */
static void normalise(float *vector, uint32_t columns)
{
  double squares = 0;
  for (uint32_t c = 0; c < columns; c++)
    squares += (double)vector[c] * (double)vector[c];
  float scale = squares > 0 ? (float)(1 / sqrt(squares)) : 0;
  for (uint32_t c = 0; c < columns; c++)
    vector[c] *= scale;
}

static uint32_t columns_of(const struct lls_generation *generation)
{
  const struct lls_api_params *params = &generation->params;
  return params->dimensions != LLS_UNSET ? (uint32_t)params->dimensions
                                         : generation->api->config.vector_columns;
}

static double cosine(const struct lls_generation *generation, const float *a,
                     const float *b)
{
  double sum = 0;
  for (uint32_t c = 0; c < columns_of(generation); c++)
    sum += (double)a[c] * (double)b[c];
  return sum;
}

static double logistic(double x)
{
  return 1 / (1 + exp(-x));
}

/* Returns how well two texts match: the cosine of two choices' vectors; from a
 * cross-encoder, which reads both texts as one prompt, the score of the second choice. */
static double pair_score(const struct lls_generation *generation, uint32_t first,
                         uint32_t second)
{
  const struct lls_api_encoder *encoder = &generation->api->config.encoder;
  const float *vector = generation->choices[second].vector;
  if (!encoder->scores_pairs)
    return cosine(generation, generation->choices[first].vector, vector);
  return encoder->plain_score ? (double)vector[0] : logistic((double)vector[0]);
}

static void put_numbers(struct lls_text *text, const float *vector, uint32_t columns)
{
  lls_text_puts(text, "[");
  for (uint32_t c = 0; c < columns; c++)
    lls_text_printf(text, c > 0 ? ",%.9g" : "%.9g", (double)vector[c]);
  lls_text_puts(text, "]");
}

/* Appends the vector in base64, as little-endian floats. */
static void put_base64(struct lls_text *text, const float *vector, uint32_t columns)
{
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *bytes = (const unsigned char *)vector;
  size_t n = columns * sizeof *vector;
  lls_text_puts(text, "\"");
  for (size_t i = 0; i < n; i += 3) {
    uint32_t three = (uint32_t)bytes[i] << 16;
    three |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
    three |= i + 2 < n ? bytes[i + 2] : 0;
    char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                    i + 1 < n ? digits[three >> 6 & 63] : '=',
                    i + 2 < n ? digits[three & 63] : '='};
    lls_text_append(text, four, sizeof four);
  }
  lls_text_puts(text, "\"");
}

/* ---- answers ----------------------------------------------------------------------- */

static json_t *usage(const struct lls_generation *generation)
{
  json_int_t prompt = 0;
  for (size_t i = 0; i < generation->prompts.count; i++)
    prompt += (json_int_t)generation->prompts.prompts[i].n_tokens;
  return json_pack("{s:I, s:I}", "prompt_tokens", prompt, "total_tokens", prompt);
}

json_t *lls_vectors_envelope(const struct lls_generation *generation)
{
  return json_pack("{s:s, s:I, s:s, s:o}", "id", generation->id, "created",
                   (json_int_t)generation->created_s, "model",
                   lls_generation_model(generation), "usage", usage(generation));
}

/* Returns the text of {"object": "list", "data": [...], and the members of the envelope},
 * which the caller frees. object: what an entry of the list says it is; member: its
 * member with the vector. */
static char *write_list(const struct lls_generation *generation, const char *object,
                        const char *member)
{
  struct lls_text text = {0};
  json_t *json = lls_vectors_envelope(generation);
  char *rest = lls_json_text(json, JSON_COMPACT);
  lls_text_puts(&text, "{\"object\":\"list\",\"data\":[");
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    lls_text_printf(&text, "%s{\"object\":\"%s\",\"index\":%u,\"%s\":", i > 0 ? "," : "",
                    object, i, member);
    (generation->params.base64 ? put_base64 : put_numbers)(
        &text, generation->choices[i].vector, columns_of(generation));
    lls_text_puts(&text, "}");
  }
  lls_text_puts(&text, "],");
  lls_text_puts(&text, rest != NULL ? rest + 1 : "");
  bool whole = rest != NULL && !text.failed;
  free(rest);
  json_decref(json);
  if (!whole)
    lls_text_free(&text);
  return text.data;
}

struct ranked {
  uint32_t index;
  double score;
};

/* Orders by descending score; equal scores by index. */
static int compare(const void *a, const void *b)
{
  const struct ranked *x = a, *y = b;
  if (x->score != y->score)
    return x->score > y->score ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

/* Returns the number of choices before the documents' ones: 1 for the query, 0 for an
 * encoder that reads query and document together. */
static uint32_t n_queries(const struct lls_generation *generation)
{
  return generation->api->config.encoder.scores_pairs ? 0 : 1;
}

static json_t *result(const struct lls_generation *generation, const struct ranked *r)
{
  const struct lls_api_prompt *document =
      &generation->prompts.prompts[n_queries(generation) + r->index];
  json_t *json =
      json_pack("{s:i, s:f}", "index", (int)r->index, "relevance_score", r->score);
  if (generation->params.return_documents)
    lls_json_put(&json, "document",
                 json_pack("{s:s%}", "text", document->text, document->text_bytes));
  return json;
}

/* Returns a result in the shape of TEI, Hugging Face's server for embeddings. */
static json_t *text_result(const struct lls_generation *generation,
                           const struct ranked *r)
{
  const struct lls_api_prompt *text =
      &generation->prompts.prompts[n_queries(generation) + r->index];
  json_t *json = json_pack("{s:i, s:f}", "index", (int)r->index, "score", r->score);
  if (generation->params.return_documents)
    lls_json_put(&json, "text", json_stringn(text->text, text->text_bytes));
  return json;
}

/* Returns the results, best first; NULL if out of memory. */
static json_t *ranked(const struct lls_generation *generation,
                      json_t *(*shape)(const struct lls_generation *,
                                       const struct ranked *))
{
  uint32_t skipped = n_queries(generation), n = generation->n_choices - skipped;
  int64_t top = generation->params.top_n;
  struct ranked *all = calloc(n, sizeof *all);
  json_t *results = all != NULL ? json_array() : NULL;
  for (uint32_t i = 0; all != NULL && i < n; i++)
    all[i] = (struct ranked){i, pair_score(generation, 0, skipped + i)};
  if (all != NULL)
    qsort(all, n, sizeof *all, compare);
  for (uint32_t i = 0; all != NULL && i < n && i < top; i++)
    lls_json_add(&results, shape(generation, &all[i]));
  free(all);
  return results;
}

static json_t *ranking(const struct lls_generation *generation)
{
  json_t *json = lls_vectors_envelope(generation);
  lls_json_put(&json, "results", ranked(generation, result));
  return json;
}

static json_t *texts(const struct lls_generation *generation)
{
  return ranked(generation, text_result);
}

static json_t *scores(const struct lls_generation *generation)
{
  uint32_t n = (uint32_t)generation->prompts.n_second;
  uint32_t n_first = generation->n_choices - n;
  json_t *json = lls_vectors_envelope(generation), *data = json_array();
  for (uint32_t i = 0; i < n; i++) {
    double score = pair_score(generation, n_first == 1 ? 0 : i, n_first + i);
    lls_json_add(&data, json_pack("{s:i, s:s, s:f}", "index", (int)i, "object", "score",
                                  "score", score));
  }
  lls_json_put(&json, "object", json_string("list"));
  lls_json_put(&json, "data", data);
  return json;
}

/* Brings the vectors to length 1. Returns false if one is missing: out of memory. */
static bool prepare(const struct lls_generation *generation)
{
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    if (generation->choices[i].vector == NULL)
      return false;
    if (!generation->api->config.encoder.scores_pairs && generation->params.normalize)
      normalise(generation->choices[i].vector, columns_of(generation));
  }
  return true;
}

static char *text_of(const struct lls_generation *generation,
                     json_t *(*compare_texts)(const struct lls_generation *))
{
  if (!prepare(generation))
    return NULL;
  json_t *json = compare_texts(generation);
  char *text = lls_json_text(json, JSON_COMPACT);
  json_decref(json);
  return text;
}

char *lls_vectors_list(const struct lls_generation *generation)
{
  return prepare(generation) ? write_list(generation, "embedding", "embedding") : NULL;
}

char *lls_vectors_pooling(const struct lls_generation *generation)
{
  return prepare(generation) ? write_list(generation, "pooling", "data") : NULL;
}

char *lls_vectors_ranking(const struct lls_generation *generation)
{
  return text_of(generation, ranking);
}

char *lls_vectors_texts(const struct lls_generation *generation)
{
  return text_of(generation, texts);
}

char *lls_vectors_scores(const struct lls_generation *generation)
{
  return text_of(generation, scores);
}

void lls_vectors_put(struct lls_text *text, const struct lls_generation *generation)
{
  if (!prepare(generation)) {
    text->failed = true;
    return;
  }
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    lls_text_puts(text, i > 0 ? "," : "");
    put_numbers(text, generation->choices[i].vector, columns_of(generation));
  }
}
