/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that other instances have ordered, and how much of each order is sent. All
 * functions are the channel thread's. A list begins as NULL, and has the oldest order
 * first. */
#ifndef LLS_CLUSTER_SERVING_H
#define LLS_CLUSTER_SERVING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/pack.h"
#include "core/cluster/bulk.h"

struct lls_serving;

/* Adds an order of instance `from`, packed as by lls_fetches_next_order. Returns false
 * if out of memory, or if the order is malformed. */
bool lls_serving_add(struct lls_serving **, uint32_t from, uint64_t ticket,
                     struct lls_unpack *);
void lls_serving_end(struct lls_serving **, uint32_t from, uint64_t ticket);
/* Drops all orders of the instance. */
void lls_serving_lose(struct lls_serving **, uint32_t from);
/* Sends pieces that there is room for. Returns true if there was any. */
bool lls_serving_go_on(struct lls_serving **, struct lls_bulk *);
void lls_serving_free(struct lls_serving **);

#endif
