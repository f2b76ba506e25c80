/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges that are answered later, several at once: waits for the same thing. */
#ifndef LLS_API_WAITS_H
#define LLS_API_WAITS_H

#include "core/http/server.h"

struct lls_wait; /* a utlist; NULL: none */

/* The exchange waits for that number of what is counted; without memory it is answered at
 * once, and nothing is to be done for it: false. Clients that go take themselves out. */
bool lls_wait_add(struct lls_wait **list, struct lls_http_exchange *exchange,
                  uint64_t number);

/* Takes out one that waits for this number or one before; NULL: no more. */
struct lls_http_exchange *lls_wait_take(struct lls_wait **list, uint64_t number);

#endif
