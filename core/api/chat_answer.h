/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the answer of a chat into content, reasoning and tool calls, with the choice's
 * parser. A choice has no parser if the request has no tools and the model does no
 * reasoning; then the text is the content, and there is nothing to split. The functions
 * run on [main] unless marked [any].
 */
#ifndef LLS_API_CHAT_ANSWER_H
#define LLS_API_CHAT_ANSWER_H

#include "core/api/generation.h"

/* [any] Makes params->structured the grammar of the whole answer: the reasoning, then
 * the calls that tool_choice requires or the requested format. Returns 0, or -1 with
 * *error set. */
int lls_chat_answer_require(const struct lls_api_config *config,
                            const struct lls_api_prompt_list *prompts,
                            struct lls_api_params *params, struct lls_api_error *error);

/* [any] Creates the choice's parser, if it needs one. Returns 0, or -1 if out of
 * memory. */
int lls_chat_answer_init(const struct lls_api_config *config, struct lls_choice *choice);
void lls_chat_answer_free(struct lls_choice *choice);

/* Writes the token's text to `piece`, which is large enough for any token, and returns
 * its length. With skip_special_tokens special tokens have no text, except the markers
 * that the parser needs. */
size_t lls_chat_answer_text(struct lls_choice *choice, int32_t token, char *piece);

/* Parses the ready text; is_token: a new token has arrived. Returns true if the answer
 * is complete and generation can stop. */
bool lls_chat_answer_take(struct lls_choice *choice, bool is_token);
/* Parses the text that was held back, at the end of the answer. cut: the length limit
 * or a stop string ended it. */
void lls_chat_answer_end(struct lls_choice *choice, bool cut);

/* Returns the whole message, in the form of /v1/chat/completions; NULL if out of
 * memory. */
json_t *lls_chat_answer_message(const struct lls_choice *choice);
/* Returns the part of the message not sent yet; NULL if out of memory. */
json_t *lls_chat_answer_delta(const struct lls_choice *choice);

#endif
