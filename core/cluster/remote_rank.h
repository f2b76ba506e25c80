/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank other than 0 of an instance in several processes (remote.h). It has no
 * policies and no requests, and computes what rank 0 computes
 * (core/engine/worker_rank.h). A thread of its own transfers its part of the blocks to
 * and from the ranks of the same number, to which it sends its own orders. It reports
 * to rank 0 when a part is complete.
 *
 *   rank 0's step thread -> notes between steps -> fetches here -> this thread
 *   this thread <-> the same rank of other instances; -> rank 0's channel's thread
 */
#ifndef LLS_CLUSTER_REMOTE_RANK_H
#define LLS_CLUSTER_REMOTE_RANK_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_channel;
struct lls_remote_rank;
struct lls_fetches_options;

/* [main] Creates the rank and starts its thread. Block fetches use fetches->channel.
 * Both channels must outlive the rank. */
int lls_remote_rank_create(const struct lls_fetches_options *fetches,
                           struct lls_channel *within, struct lls_remote_rank **out,
                           struct lls_error *err);
/* Handles a note of rank 0. */
int lls_remote_rank_heed(struct lls_remote_rank *, const void *note, size_t bytes,
                         struct lls_error *err);
/* Call it once rank 0 has dismissed this rank, or the group has failed. */
void lls_remote_rank_destroy(struct lls_remote_rank *);

#endif
