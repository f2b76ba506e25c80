/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a chat as content, reasoning and calls of tools: what a choice's parser
 * makes of its text. Without a parser, which needs neither tools nor a model that
 * reasons, the text is the content, and these functions do nothing. [main] but for init.
 */
#ifndef LLS_API_CHAT_ANSWER_H
#define LLS_API_CHAT_ANSWER_H

#include "core/api/generation.h"

/* [any] params->structured becomes the grammar of the whole answer: calls that
 * tool_choice requires, or the form, each after the thought. 0, or -1 and why. */
int lls_chat_answer_require(const struct lls_api_config *config,
                            const struct lls_api_prompt_list *prompts,
                            struct lls_api_params *params, struct lls_api_error *error);

/* [any] 0, or -1 without memory. */
int lls_chat_answer_init(const struct lls_api_config *config, struct lls_choice *choice);
void lls_chat_answer_free(struct lls_choice *choice);

/* The token's text into piece, which has the room; its length. Special tokens have none
 * (skip_special_tokens), but for the marks that the parser looks for. */
size_t lls_chat_answer_text(struct lls_choice *choice, int32_t token, char *piece);

/* Takes the ready text, of a token that is shown or of nothing new; true if nothing that
 * follows is wanted. */
bool lls_chat_answer_take(struct lls_choice *choice, bool is_token);
/* The answer is over: takes what was held back, too. `cut`: by its length or a stop
 * string. */
void lls_chat_answer_end(struct lls_choice *choice, bool cut);

/* The whole message, of a choice that has a parser; NULL without memory. */
json_t *lls_chat_answer_message(const struct lls_choice *choice);
/* The part that was not sent yet; an empty object without a parser. */
json_t *lls_chat_answer_delta(const struct lls_choice *choice);

#endif
