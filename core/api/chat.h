/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a chat as the text that the model's template makes of them. */
#ifndef LLS_API_CHAT_H
#define LLS_API_CHAT_H

#include "core/api/api_internal.h"

struct lls_api_params;

/* "messages" of a body, rendered as the parameters say that they end; the caller frees
 * *text. 0, or -1 and why. Any thread. */
int lls_chat_render(const struct lls_api_config *config, const json_t *body,
                    const struct lls_api_params *params, char **text, size_t *length,
                    struct lls_api_error *error);

#endif
