/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prompts of a request, tokenised: the forms of "prompt", or a rendered chat. Any thread
 * may read them.
 */
#ifndef LLS_API_PROMPT_H
#define LLS_API_PROMPT_H

#include "core/api/api_internal.h"

struct lls_api_params;

/* A text of up to this many bytes is tokenised although it may exceed the context. */
#define LLS_MAX_TEXT (1 << 20)

struct lls_api_prompt {
  int32_t *tokens; /* (n_tokens) */
  size_t n_tokens;
  size_t n_added;     /* tokens added before the text, such as BOS */
  size_t n_after;     /* tokens added after an encoder's text, such as [SEP] */
  size_t second_text; /* lls_engine_sequence.second_text */
  char *text;         /* (text_bytes) the prompt's text; decoded if from_ids */
  size_t text_bytes;
  bool in_reasoning; /* a rendered chat has opened the answer's reasoning */
  json_t *begun;     /* a chat's: the string that the answer begins with, or NULL */
  bool from_ids;     /* the client sent ids, or its text was cut to tokens */
};

struct lls_api_prompt_list {
  struct lls_api_prompt *prompts; /* (count) */
  size_t count;
  /* /v1/score: the last n_second prompts are the second texts of the pairs; for a
   * model that scores pairs all prompts, and each is a pair. */
  size_t n_second;
};

/*
 * The readers return 0, or -1 with *error set. params says how a text is encoded, how
 * it is truncated, and how many tokens are reserved for the answer.
 */

/* `param`: a string, ids, or an array of strings and of arrays of ids. */
int lls_prompts_read(const struct lls_api_config *config, const json_t *value,
                     const char *param, const struct lls_api_params *params,
                     struct lls_api_prompt_list *out, struct lls_api_error *error);

/* Two texts, UTF-8, that the model reads as one prompt. */
struct lls_api_pair {
  const char *first, *second;
  size_t first_bytes, second_bytes;
  const json_t *instruction; /* for a reranker, or NULL */
};

/* Makes a prompt of each pair; its text is that of the second. */
int lls_prompts_pairs(const struct lls_api_config *config,
                      const struct lls_api_pair *pairs, size_t count, const char *param,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *out, struct lls_api_error *error);

/* Returns how many prompts a request may have. */
size_t lls_prompts_most(const struct lls_api_config *config,
                        const struct lls_api_params *params);

/* Makes one prompt of the text, which came in parameter `param`. */
int lls_prompts_from_text(const struct lls_api_config *config, const char *text,
                          size_t length, const struct lls_api_params *params,
                          const char *param, struct lls_api_prompt_list *out,
                          struct lls_api_error *error);

void lls_prompts_free(struct lls_api_prompt_list *list);

#endif
