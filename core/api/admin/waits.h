/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of exchanges that wait for a numbered event, such as a reload, and are answered
 * when it has happened. */
#ifndef LLS_API_WAITS_H
#define LLS_API_WAITS_H

#include "core/http/server.h"

struct lls_wait; /* a utlist; NULL: none */

/* Adds an exchange that waits until the counter (of reloads, of queue snapshots)
 * reaches `number`. Returns false if out of memory; the exchange has then been answered
 * with a 503. A client that disconnects is removed automatically. */
bool lls_wait_add(struct lls_wait **list, struct lls_http_exchange *exchange,
                  uint64_t number);

/* Removes and returns an exchange that waits for `number` or a smaller one; NULL if
 * none is left. */
struct lls_http_exchange *lls_wait_take(struct lls_wait **list, uint64_t number);

#endif
