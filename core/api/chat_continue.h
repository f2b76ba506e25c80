/* SPDX-License-Identifier: Apache-2.0 */
/* A chat whose last message is gone on with, instead of answered. */
#ifndef LLS_API_CHAT_CONTINUE_H
#define LLS_API_CHAT_CONTINUE_H

#include "core/api/api_error.h"

/* Before messages are rendered: marks where the last one's content ends. */
int lls_chat_mark_end(json_t *messages, struct lls_api_error *error);

/* Cuts what was rendered of them off there. 0, or -1 and why: the template does not show
 * the mark. */
int lls_chat_cut_at_end(char *text, size_t *length, struct lls_api_error *error);

#endif
