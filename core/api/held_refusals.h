/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals of a server that shuts down, held back for clients that can only ask this
 * server again: "Prefer: wait=SECONDS" (RFC 7240, section 4.3). A proxy repeats a refused
 * request at once. Without a wait HAProxy spent 120 tries in 35 ms, far less than running
 * answers take to end; the repeated request should meet the next process instead.
 */
#ifndef LLS_API_HELD_REFUSALS_H
#define LLS_API_HELD_REFUSALS_H

#include "core/api/api_error.h"

struct lls_api;
struct lls_held_refusal;
struct lls_http_exchange;

#define LLS_HELD_REFUSALS_MAX 1000 /* more are not held; a held one keeps its body */

struct lls_held_refusals {
  struct lls_held_refusal *list; /* utlist; NULL: none */
  unsigned n;
  bool ended; /* the server stops: refusals are no longer held */
};

/* [main] Answers with the error; during shutdown as late as the request allows. */
void lls_held_refusals_add(struct lls_api *api, struct lls_http_exchange *exchange,
                           const struct lls_api_error *error);
/* [main] Answers the requests that have waited for as long as they wanted. */
void lls_held_refusals_tick(struct lls_api *api, int64_t now_ns);
/* [main] Answers all of them, and later ones at once. */
void lls_held_refusals_end(struct lls_api *api);

#endif
