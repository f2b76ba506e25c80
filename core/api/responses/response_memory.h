/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the conversations of /v1/responses in the store ([server] state): loads the
 * items that precede a request, and stores its answer. A client gets an answer that
 * says "stored" only once the response is on the disk. Everything runs on [main].
 *
 *   request   previous_response_id --> ask, a job --> the items --> responses.c
 *   answer    whole or the last events --> put, a job --> to the client
 */
#ifndef LLS_API_RESPONSES_RESPONSE_MEMORY_H
#define LLS_API_RESPONSES_RESPONSE_MEMORY_H

#include "core/api/generation.h"

/* Returns true if this server stores responses. */
bool lls_response_memory_is_on(const struct lls_api *api);

/* Returns 0, or -1 with *error set if the response is to be stored and the database does
 * not answer. */
int lls_response_memory_check(const struct lls_api *api,
                              const struct lls_generation *generation,
                              struct lls_api_error *error);

/* Loads what the body needs of the client's tenant, then calls `found`, with "items", the
 * items of the conversation so far, oldest first, and "named", the items that the input
 * refers to, by their ids. */
void lls_response_memory_ask(struct lls_api *api, struct lls_http_exchange *exchange,
                             const json_t *body, lls_past_found *found, void *context);

/* Stores the response of a finished generation, `text` as JSON; then calls `put`, which
 * destroys the generation and may free the text. The client may have disconnected
 * meanwhile. */
void lls_response_memory_put(struct lls_generation *generation, const char *text,
                             lls_answer_stored *put, void *context);

#endif
