/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of a request that come in its headers: deadlines and a fairness key, as
 * the Kubernetes inference gateway sends them, and the session.
 *
 *   x-request-id                        its id in headers and logs
 *   x-slo-ttft-ms, x-slo-tpot-ms        deadlines; the body's "slo" says more and wins
 *   x-gateway-inference-fairness-id     the tenant; wins over the body's "user", but not
 *                                       over the tenant of the client's API key
 *   x-session-id                        the name of its session; wins over the body's
 *   traceparent                         the client's span (core/traces)
 *   x-session-returns                   seconds from its answer to the session's next
 *                                       request
 */
#ifndef LLS_API_REQUEST_HEADERS_H
#define LLS_API_REQUEST_HEADERS_H

#include "core/api/api_params.h"

#define LLS_FAIRNESS_HEADER "x-gateway-inference-fairness-id"

/* Sets the request's id for headers and logs: the client's x-request-id, or a fresh
 * one. */
void lls_api_name_request(struct lls_http_exchange *exchange);
/* The same without the answer's header, before the body has come. */
void lls_api_choose_id(struct lls_http_exchange *exchange);

/* Reads the headers into params. Returns 0, or -1 with *error set. key_tenant: the
 * tenant of the client's API key; if it is "" or NULL, the request may name one. */
int lls_api_read_headers(const struct lls_http_exchange *exchange, const char *key_tenant,
                         struct lls_api_params *params, struct lls_api_error *error);

#endif
