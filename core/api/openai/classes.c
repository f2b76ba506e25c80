/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the answer of /classify: each text's likeliest class, and how likely each is. */
#include <math.h>
#include <stdlib.h>

#include "core/api/openai/vectors.h"
#include "core/base/json_memory.h"

/* Turns the head's scores into probabilities: of classes that exclude each other they add
 * up to 1. */
static void activate(float *scores, size_t n, bool independent)
{
  double sum = 0;
  float top = scores[0];
  for (size_t i = 1; i < n; i++)
    top = scores[i] > top ? scores[i] : top;
  for (size_t i = 0; i < n; i++)
    sum += exp((double)(scores[i] - top));
  for (size_t i = 0; i < n; i++)
    scores[i] = independent ? (float)(1 / (1 + exp(-(double)scores[i])))
                            : (float)(exp((double)(scores[i] - top)) / sum);
}

static json_t *class_json(const struct lls_generation *generation, uint32_t index)
{
  const struct lls_api_encoder *encoder = &generation->api->config.encoder;
  float *scores = generation->choices[index].vector;
  size_t n = json_array_size(encoder->labels), best = 0;
  json_t *probs = json_array();
  if (generation->params.use_activation)
    activate(scores, n, encoder->independent_labels);
  for (size_t i = 0; i < n; i++) {
    best = scores[i] > scores[best] ? i : best;
    lls_json_add(&probs, json_real((double)scores[i]));
  }
  return json_pack("{s:I, s:s, s:o, s:I}", "index", (json_int_t)index, "label",
                   json_string_value(json_array_get(encoder->labels, best)), "probs",
                   probs, "num_classes", (json_int_t)n);
}

char *lls_classes_list(const struct lls_generation *generation)
{
  json_t *data = json_array(), *json = lls_vectors_envelope(generation);
  bool whole = true;
  for (uint32_t i = 0; i < generation->n_choices && whole; i++) {
    whole = generation->choices[i].vector != NULL;
    if (whole)
      lls_json_add(&data, class_json(generation, i));
  }
  lls_json_put(&json, "object", json_string("list"));
  lls_json_put(&json, "data", data);
  char *text = whole ? lls_json_text(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text;
}
