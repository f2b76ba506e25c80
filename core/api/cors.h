/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of web pages from elsewhere, as the Fetch Standard has it ("CORS protocol"): a
 * browser asks first, by OPTIONS, and shows a page nothing that its origin may not see.
 * With no origin allowed, a page can't use a server on its visitor's own machine.
 */
#ifndef LLS_API_CORS_H
#define LLS_API_CORS_H

#include "core/api/internal.h"

/* Adds the headers that an allowed origin needs to the answer. True if the request was
 * OPTIONS of a path that there is: then it has been answered; `allow` names its methods.
 */
bool lls_api_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                  const char *allow);

#endif
