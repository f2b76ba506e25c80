/* SPDX-License-Identifier: Apache-2.0 */
/* Renders the messages of a chat with the model's chat template. */
#ifndef LLS_API_CHAT_H
#define LLS_API_CHAT_H

#include "core/api/api_internal.h"

struct lls_api_params;
struct lls_api_prompt_list;

/* [any] Renders the "messages" of a body; the parameters decide how the prompt ends
 * (add_generation_prompt, continue_final_message). The caller frees *text. Returns 0,
 * or -1 with *error set. */
int lls_chat_render(const struct lls_api_config *config, const json_t *body,
                    const struct lls_api_params *params, char **text, size_t *length,
                    struct lls_api_error *error);

/* [any] Does the same and makes the prompt of the text; see struct lls_dialect. */
int lls_chat_read_prompts(const struct lls_api_config *config, const json_t *body,
                          const struct lls_api_params *params,
                          struct lls_api_prompt_list *prompts,
                          struct lls_api_error *error);

#endif
