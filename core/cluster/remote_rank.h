/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank other than 0 of an instance in several processes (remote.h). It has no policies
 * and no requests, and computes what rank 0 does (core/engine/worker_rank.h); beside that
 * a thread of its own has its part of the blocks come and go, from and to the ranks of
 * the same number, which it asks itself. Rank 0 hears when all that it wanted is there.
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

/* [main] All of it, with fetches over `fetches->channel`. The channels outlive it. */
int lls_remote_rank_create(const struct lls_fetches_options *fetches,
                           struct lls_channel *within, struct lls_remote_rank **out,
                           struct lls_error *err);
/* A note of rank 0. */
int lls_remote_rank_heed(struct lls_remote_rank *, const void *note, size_t bytes,
                         struct lls_error *err);
/* Once rank 0 has dismissed this one, or the group has failed. */
void lls_remote_rank_destroy(struct lls_remote_rank *);

#endif
