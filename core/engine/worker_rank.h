/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks other than 0: each makes a device and an engine of its own and computes what
 * rank 0 does, as a thread of its process or as a process.
 */
#ifndef LLS_ENGINE_WORKER_RANK_H
#define LLS_ENGINE_WORKER_RANK_H

#include "core/device/devices.h"
#include "core/engine/engine.h"

/* Work of a rank beside its steps. */
struct lls_worker_rank_side {
  void *context;
  int (*begin)(void *context, struct lls_engine *, struct lls_error *err);
  /* A note of rank 0, between the same two steps as there. */
  int (*heed)(void *context, const struct lls_engine_note *, struct lls_error *err);
  void (*end)(void *context); /* before the engine goes, unless begin has failed */
};

struct lls_worker_rank_options {
  enum lls_device_choice choice;
  struct lls_device_options device; /* ranks is set by the follower */
  struct lls_engine_options engine; /* likewise; what they point to outlives the ranks */
  struct lls_model_config model;
  /* Makes the device; NULL = the one of choice. */
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  const struct lls_worker_rank_side *side; /* NULL = nothing; outlives the ranks */
};

/* 0 once rank 0 has dismissed this rank; or why it ended, which the group has been told.
 */
int lls_worker_rank_run(const struct lls_worker_rank_options *, struct lls_ranks *,
                        struct lls_error *err);

/*
 * A thread for each of ranks 1 .. size - 1 of handles, which are theirs from here on;
 * rank 0's stays the caller's. Their failures are the group's.
 */
struct lls_worker_ranks;
int lls_worker_ranks_start(const struct lls_worker_rank_options *,
                           struct lls_ranks **handles, uint32_t size,
                           struct lls_worker_ranks **out, struct lls_error *err);
/* After lls_engine_dismiss or a failure. -ETIMEDOUT: one does not come to its end; then
 * nothing that they use may be freed, and the process should end. NULL is fine. */
int lls_worker_ranks_stop(struct lls_worker_ranks *);

#endif
