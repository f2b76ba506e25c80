/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prompts of a request, tokenised: the forms of "prompt", or a rendered chat. Any thread
 * may read them.
 */
#ifndef LLS_API_PROMPT_H
#define LLS_API_PROMPT_H

#include "core/api/api_internal.h"

struct lls_api_params;

/* Bytes of a text that is tokenised although it may be longer than the context. */
#define LLS_MAX_TEXT (1 << 20)

struct lls_api_prompt {
  int32_t *tokens; /* (n_tokens) */
  size_t n_tokens;
  size_t n_added;     /* of them: put before the text by encoding, as BOS is */
  size_t n_after;     /* of an encoder's: put behind the text, as [SEP] is */
  size_t second_text; /* lls_engine_sequence.second_text */
  char *text;         /* (text_bytes) of ids: what they read as */
  size_t text_bytes;
  bool in_reasoning; /* a rendered chat has opened the answer's reasoning */
  json_t *begun;     /* a chat's: a string that the answer begins with, or NULL */
  bool from_ids;     /* what the client gave, or what was left of its text */
};

struct lls_api_prompt_list {
  struct lls_api_prompt *prompts; /* (count) */
  size_t count;
  size_t n_second; /* of /v1/score: of them, the last, the others' partners; of a
                    * cross-encoder all, and each is a pair */
};

/*
 * Both give 0, or -1 and why; params say how a text is encoded, what is cut off, and how
 * much room the answer needs.
 */

/* `param`: a string, ids, or an array of strings and of arrays of ids. */
int lls_prompts_read(const struct lls_api_config *config, const json_t *value,
                     const char *param, const struct lls_api_params *params,
                     struct lls_api_prompt_list *out, struct lls_api_error *error);

/* Two texts, UTF-8, that a cross-encoder reads as one prompt. */
struct lls_api_pair {
  const char *first, *second;
  size_t first_bytes, second_bytes;
};

/* A prompt of each pair, whose text is the second one's. */
int lls_prompts_pairs(const struct lls_api_config *config,
                      const struct lls_api_pair *pairs, size_t count, const char *param,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *out, struct lls_api_error *error);

/* How many prompts a request may have. */
size_t lls_prompts_most(const struct lls_api_config *config,
                        const struct lls_api_params *params);

/* One prompt of this text, which is that of the parameter `param`. */
int lls_prompts_from_text(const struct lls_api_config *config, const char *text,
                          size_t length, const struct lls_api_params *params,
                          const char *param, struct lls_api_prompt_list *out,
                          struct lls_api_error *error);

void lls_prompts_free(struct lls_api_prompt_list *list);

#endif
