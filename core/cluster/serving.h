/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that other instances have asked for, and how far each is sent. All of it is the
 * channel's thread's. A list begins as NULL, and has the oldest first. */
#ifndef LLS_CLUSTER_SERVING_H
#define LLS_CLUSTER_SERVING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/pack.h"
#include "core/cluster/bulk.h"

struct lls_serving;

/* Instance `from` wants what is packed: as lls_fetches_next_order has it. False: no
 * memory, or it came in pieces. */
bool lls_serving_add(struct lls_serving **, uint32_t from, uint64_t ticket,
                     struct lls_unpack *);
void lls_serving_end(struct lls_serving **, uint32_t from, uint64_t ticket);
/* All that the instance wanted. */
void lls_serving_lose(struct lls_serving **, uint32_t from);
/* Sends what there is room for. True: there was something. */
bool lls_serving_go_on(struct lls_serving **, struct lls_bulk *);
void lls_serving_free(struct lls_serving **);

#endif
