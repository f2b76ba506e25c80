/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control: which client may send which request. The checks run when the head of
 * a request has arrived, before its body is stored, and again before the handler gets
 * the complete request.
 *
 *   Host     for a request from this machine the header must name this machine. A web
 *            page may resolve its own name to 127.0.0.1 (DNS rebinding): a visitor's
 *            browser would then treat this server as the page's origin, but it sends
 *            the page's name in Host.
 *   Origin   for requests that change something: a page of an origin that is not allowed
 *            is refused, not only kept from reading the answer.
 *   CORS     which parts of an answer a browser may show to a page of another origin, by
 *            the Fetch Standard ("CORS protocol"). A browser sends an OPTIONS request
 *            first, except before "simple" requests; so Origin is checked as well.
 *   key      /v1 requires a key of api_keys if that is set, /admin a key of admin_keys.
 *            Without admin_keys, /admin answers this machine only, and only if the
 *            server listens on loopback alone and not in a pod. A client that can open
 *            [server] admin_socket is an admin without a key. /metrics, which names
 *            tenants, is open to every client if no keys are set, else to this machine
 *            and to clients with a key for it. The health endpoints are open to all.
 *   type     a body must be JSON, and its Content-Type must say so; it may be compressed
 *            (content_coding.h), but for uploads.
 *
 * A client that connects through a proxy on this machine counts as a remote client.
 */
#ifndef LLS_API_ACCESS_H
#define LLS_API_ACCESS_H

#include "core/api/api_internal.h"

/* Each check reads only the head of the request and sends no answer. Returns true if
 * the request may continue, else false with the reason in *error. */
bool lls_access_host(const struct lls_api *api, struct lls_http_exchange *exchange,
                     struct lls_api_error *error);
bool lls_access_path(const struct lls_api *api, const struct lls_http_exchange *exchange,
                     struct lls_api_error *error);
/* Which clients may send a request: all; those with a key, or on this machine; those with
 * a key of api_keys, if there are any; admins. */
enum lls_access_group {
  LLS_ACCESS_ALL,
  LLS_ACCESS_READERS,
  LLS_ACCESS_USERS,
  LLS_ACCESS_ADMINS
};
enum lls_access_group lls_access_group_of(const char *method, const char *path);
bool lls_access_client(const struct lls_api *api, struct lls_http_exchange *exchange,
                       struct lls_api_error *error);
bool lls_access_body(const struct lls_http_exchange *exchange,
                     struct lls_api_error *error);
bool lls_access_upload(const struct lls_http_exchange *exchange,
                       struct lls_api_error *error);

/* Returns true for an OPTIONS request to an existing path; `allow` lists the path's
 * methods. */
bool lls_access_is_preflight(const struct lls_http_exchange *exchange, const char *allow);

/* Adds the CORS headers for an allowed origin to the answer. Returns true if the
 * request was a preflight; it has then been answered. */
bool lls_access_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                     const char *allow);

/* Returns the tenant that owns a request: the request may use the files, responses and
 * cached prompts of that tenant. It is the tenant of the API key and stays the same as
 * long as the key does; a key without a tenant is a tenant of its own. Returns "" if no
 * keys are set, NULL if a key is required and the request has no valid one. */
const char *lls_access_tenant(const struct lls_api *api,
                              const struct lls_http_exchange *exchange);

/* Returns the tenant whose limits apply to a request: as lls_access_tenant, but if no
 * keys are set, the tenant that a gateway in front of this server names. Never NULL. */
const char *lls_access_account(const struct lls_api *api,
                               const struct lls_http_exchange *exchange);

#endif
