/* SPDX-License-Identifier: Apache-2.0 */
/* The reference models of t/data/models, with the results that transformers computed
 * for them. */
#ifndef LLS_T_REFERENCE_H
#define LLS_T_REFERENCE_H

#include "t/tap.h"

#include <jansson.h>
#include <string.h>

#define REFERENCE_MAX_PROMPTS 6
#define REFERENCE_MAX_TOKENS  256 /* most tokens of a prompt and its continuation */

struct reference_prompt {
  int32_t tokens[REFERENCE_MAX_TOKENS]; /* the prompt, then the greedy continuation */
  uint32_t n_prompt, n_tokens, n_logits;
  const float *logits; /* (n_logits, vocab) logits of the first tokens */
  double min_gap;      /* smallest distance of the two best logits in the continuation */
};

struct reference {
  char folder[4096];
  uint32_t vocab, n_prompts;
  struct reference_prompt prompts[REFERENCE_MAX_PROMPTS];
  float *logits;
};

static inline float *reference_read_floats(const char *path)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  float *floats = malloc((size_t)size);
  assert_non_null(floats);
  assert_int_equal(fread(floats, 1, (size_t)size, file), size);
  fclose(file);
  return floats;
}

static inline uint32_t reference_read_ids(const json_t *list, int32_t *out, size_t room)
{
  size_t n = json_array_size(list);
  assert_true(n > 0 && n <= room);
  for (size_t i = 0; i < n; i++)
    out[i] = (int32_t)json_integer_value(json_array_get(list, i));
  return (uint32_t)n;
}

static inline void reference_read_prompt(const struct reference *r, const json_t *from,
                                         struct reference_prompt *to)
{
  to->n_prompt =
      reference_read_ids(json_object_get(from, "ids"), to->tokens, REFERENCE_MAX_TOKENS);
  to->n_tokens = to->n_prompt + reference_read_ids(json_object_get(from, "greedy"),
                                                   to->tokens + to->n_prompt,
                                                   REFERENCE_MAX_TOKENS - to->n_prompt);
  to->n_logits = to->n_prompt;
  to->logits = r->logits + json_integer_value(json_object_get(from, "logits_offset"));
  to->min_gap = json_real_value(json_object_get(from, "min_gap"));
}

static inline struct reference *reference_read(const char *model)
{
  struct reference *r = calloc(1, sizeof *r);
  assert_non_null(r);
  char path[4200], relative[128];
  snprintf(relative, sizeof relative, "t/data/models/%s", model);
  snprintf(r->folder, sizeof r->folder, "%s", source_path(relative));
  snprintf(path, sizeof path, "%s/reference_logits.bin", r->folder);
  r->logits = reference_read_floats(path);
  snprintf(path, sizeof path, "%s/reference.json", r->folder);
  json_t *root = json_load_file(path, 0, NULL),
         *prompts = json_object_get(root, "prompts");
  assert_non_null(prompts);
  r->vocab = (uint32_t)json_integer_value(json_object_get(root, "vocab_size"));
  r->n_prompts = (uint32_t)json_array_size(prompts);
  assert_true(r->n_prompts > 0 && r->n_prompts <= REFERENCE_MAX_PROMPTS);
  for (uint32_t i = 0; i < r->n_prompts; i++)
    reference_read_prompt(r, json_array_get(prompts, i), &r->prompts[i]);
  json_decref(root);
  return r;
}

/* Reads stories260K's references, which have another format: one line for each prompt,
 * and logits of the first 40 tokens of each, which may reach into the continuation. */
static inline struct reference *reference_read_stories(void)
{
  struct reference *r = calloc(1, sizeof *r);
  assert_non_null(r);
  char path[4200];
  snprintf(r->folder, sizeof r->folder, "%s", source_path("t/data/models/stories260K"));
  snprintf(path, sizeof path, "%s/golden_logits_f32.bin", r->folder);
  r->logits = reference_read_floats(path);
  r->vocab = 512;
  snprintf(path, sizeof path, "%s/golden.jsonl", r->folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  json_t *line;
  for (uint32_t row = 0; (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL;
       json_decref(line)) {
    struct reference_prompt *p = &r->prompts[r->n_prompts++];
    assert_true(r->n_prompts <= REFERENCE_MAX_PROMPTS);
    p->n_prompt = reference_read_ids(json_object_get(line, "prompt_ids"), p->tokens,
                                     REFERENCE_MAX_TOKENS);
    p->n_tokens = p->n_prompt + reference_read_ids(json_object_get(line, "greedy_ids"),
                                                   p->tokens + p->n_prompt,
                                                   REFERENCE_MAX_TOKENS - p->n_prompt);
    p->n_logits = p->n_tokens < 40 ? p->n_tokens : 40;
    p->logits = r->logits + (size_t)row * r->vocab;
    row += p->n_logits;
  }
  fclose(file);
  return r;
}

static inline void reference_free(struct reference *r)
{
  free(r->logits);
  free(r);
}

#endif
