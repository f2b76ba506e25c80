/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses with "background": the client gets the id at once and polls, streams or
 * cancels the response later, from any connection. The generation has a struct
 * lls_background as its sink, which takes its events:
 *
 *   answered "queued" --events--> over (completed, incomplete, failed) --> in the store
 *                        +-cancel-> over (cancelled) -----------------------^
 *
 * A row of the store has the response as "queued" before the client gets the id; the end
 * replaces the row. So a row that is still "queued" after a restart belongs to a server
 * that stopped: GET says that it failed. The events of a response that was asked for with
 * "stream" are kept until some minutes after its end, so that a client whose connection
 * broke takes the stream up again. Everything runs on [main].
 */
#ifndef LLS_API_RESPONSES_DETACHED_H
#define LLS_API_RESPONSES_DETACHED_H

#include "core/api/generation.h"

/* Takes a generation that was just submitted from its client, which gets the response as
 * queued, or begins to read its events. Does nothing if out of memory: the client then
 * waits for the response as without "background". */
void lls_background_take(struct lls_generation *generation);

/* Answers a request for a response that is not over, or whose end is not stored yet.
 * Returns false if there is none with this id: it may be in the store. */
bool lls_background_get(struct lls_api *api, struct lls_http_exchange *exchange,
                        const char *id);
/* Streams the events after number `after` (-1: all) in the same way. */
bool lls_background_watch(struct lls_api *api, struct lls_http_exchange *exchange,
                          const char *id, long long after);
/* Cancels the response in the same way. */
bool lls_background_cancel(struct lls_api *api, struct lls_http_exchange *exchange,
                           const char *id);
/* Ends a response that the client deletes; its row is deleted by the caller. */
void lls_background_drop(struct lls_api *api, const struct lls_http_exchange *exchange,
                         const char *id);

/* Called at each tick of the timer: comments to silent streams, forgets old ones. */
void lls_background_tick(struct lls_api *api, int64_t now_ns);
/* Frees all of them, at shutdown. */
void lls_background_free(struct lls_api *api);

#endif
