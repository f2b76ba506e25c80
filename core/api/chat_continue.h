/* SPDX-License-Identifier: Apache-2.0 */
/* Chats with continue_final_message: the model continues the last message instead of
 * answering it. */
#ifndef LLS_API_CHAT_CONTINUE_H
#define LLS_API_CHAT_CONTINUE_H

#include "core/api/api_error.h"

/* Called before the messages are rendered: appends a mark to the last message's
 * content. */
int lls_chat_mark_end(json_t *messages, struct lls_api_error *error);

/* Cuts the rendered text off at the mark. Returns 0; or -1 with *error set if the
 * template did not copy the mark. */
int lls_chat_cut_at_end(char *text, size_t *length, struct lls_api_error *error);

#endif
