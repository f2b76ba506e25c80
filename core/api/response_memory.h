/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of /v1/responses from one request to the next, where there is a store
 * ([server] state): the request's way to the items before it, and the answer's way into
 * the database. A client that is told that its response is stored is told so when it is
 * on the disk. Everything is of [main].
 *
 *   request   previous_response_id --> ask, a job --> the items --> responses.c
 *   answer    whole or the last events --> put, a job --> to the client
 */
#ifndef LLS_API_RESPONSE_MEMORY_H
#define LLS_API_RESPONSE_MEMORY_H

#include "core/api/generation.h"

/* True if responses are stored here. */
bool lls_response_memory_is_on(const struct lls_api *api);

/* `items`: a new reference, or NULL and why; exchange NULL: the client is gone. */
typedef void lls_items_found(struct lls_api *api, void *context,
                             struct lls_http_exchange *exchange, json_t *items,
                             const struct lls_api_error *error);

/* The items of the conversation up to response `id`, if it is this client's. */
void lls_response_memory_ask(struct lls_api *api, struct lls_http_exchange *exchange,
                             const char *id, lls_items_found *found, void *context);

/* Stores the response of a generation that is over, `text` as JSON; then calls `put`,
 * which destroys the generation and may free the text. Its client may be gone by then. */
void lls_response_memory_put(struct lls_generation *generation, const char *text,
                             void (*put)(struct lls_generation *generation, bool stored,
                                         void *context),
                             void *context);

#endif
