/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prompts of a request, tokenised: the four forms of "prompt", or a rendered chat. Any
 * thread may read them.
 */
#ifndef LLS_API_PROMPT_H
#define LLS_API_PROMPT_H

#include "core/api/internal.h"

struct lls_api_prompt {
  int32_t *tokens; /* (n_tokens) */
  size_t n_tokens;
  char *text; /* (text_bytes) of ids: what they read as */
  size_t text_bytes;
  bool from_ids; /* what the client gave */
};

struct lls_api_prompt_list {
  struct lls_api_prompt *prompts; /* (count) */
  size_t count;
};

/* "prompt": a string, ids, or an array of strings or of arrays of ids. 0, or -1 and why.
 */
int lls_prompts_read(const struct lls_api_config *config, const json_t *value,
                     bool add_special, struct lls_api_prompt_list *out,
                     struct lls_api_error *error);

/* One prompt of this text. */
int lls_prompts_from_text(const struct lls_api_config *config, const char *text,
                          size_t length, bool add_special, const char *param,
                          struct lls_api_prompt_list *out, struct lls_api_error *error);

void lls_prompts_free(struct lls_api_prompt_list *list);

#endif
