/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of web pages from elsewhere, as the Fetch Standard has it ("CORS protocol"): a
 * browser asks first, by OPTIONS, and shows a page nothing that its origin may not see.
 * A browser does not ask first for what it calls simple: access.h refuses such requests.
 */
#ifndef LLS_API_CORS_H
#define LLS_API_CORS_H

#include "core/api/api_internal.h"

/* Adds the headers that an allowed origin needs to the answer. True if the request was
 * OPTIONS of a path that there is: then it has been answered; `allow` names its methods.
 */
bool lls_api_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                  const char *allow);

/* What access-control-allow-origin is to say; NULL: nothing, the request has no origin or
 * one that is not allowed. */
const char *lls_cors_allowed(const struct lls_api *api,
                             const struct lls_http_exchange *exchange);

/* Whether the list ("A B:* C", NULL is empty) has the word, in any case; "*" is any. */
bool lls_cors_lists(const char *list, const char *word);

#endif
