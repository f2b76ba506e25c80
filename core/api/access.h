/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which client may ask for what, and how: decided when the head of a request is there,
 * before its body is kept, and once more before a handler sees all of it.
 *
 *   Host     of requests from this machine it must be a name of this machine. A page of
 *            the web may point its own name at 127.0.0.1 (DNS rebinding): its visitor's
 *            browser would take the server for the page's own, but send that name.
 *   Origin   of requests that change something: pages that are not allowed are refused,
 *            not only kept from reading the answer.
 *   CORS     what a browser may show of an answer to another origin's page, as the Fetch
 *            Standard has it ("CORS protocol"). A browser asks first, by OPTIONS; but not
 *            for requests that it calls simple, so that Origin is checked, too.
 *   key      /v1 wants one of api_keys, where there are such; /admin one of admin_keys;
 *            without these it answers this machine only, where the server listens on
 *            loopback alone and in no pod. Whoever can open [server] admin_socket is an
 *            admin without a key. /metrics, which names tenants,
 *            is for everybody only where there are no keys, else for this machine and
 *            whoever has a key for it. What tells the health of the server is for all.
 *   type     bodies are JSON, and said to be.
 *
 * A client behind a proxy of this machine is not on this machine.
 */
#ifndef LLS_API_ACCESS_H
#define LLS_API_ACCESS_H

#include "core/api/api_internal.h"

/* Each: true if the request may go on; else the error says why not. Nothing is answered,
 * and of the request only the head is looked at. */
bool lls_access_host(const struct lls_api *api, struct lls_http_exchange *exchange,
                     struct lls_api_error *error);
bool lls_access_client(const struct lls_api *api, struct lls_http_exchange *exchange,
                       struct lls_api_error *error);
bool lls_access_body(const struct lls_http_exchange *exchange,
                     struct lls_api_error *error);

/* True for OPTIONS of a path that there is; `allow` names its methods. */
bool lls_access_is_preflight(const struct lls_http_exchange *exchange, const char *allow);

/* Adds the headers that an allowed origin needs to the answer. True if the request was a
 * preflight, which has been answered then. */
bool lls_access_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                     const char *allow);

/* The tenant that a request is of, whose files, responses and cached prompts it may see:
 * that of its API key, which is stable as long as the key is. A key without a tenant is a
 * tenant of its own. "" where there are no keys, NULL where a key is wanted and there is
 * none that counts. */
const char *lls_access_tenant(const struct lls_api *api,
                              const struct lls_http_exchange *exchange);

/* The tenant whose limits count for a request: as above, but where there are no keys the
 * one that a gateway before this server names. Never NULL. */
const char *lls_access_account(const struct lls_api *api,
                               const struct lls_http_exchange *exchange);

#endif
