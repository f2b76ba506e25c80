/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks other than 0: each has a device and an engine of its own and computes rank
 * 0's steps, either as a thread of rank 0's process or as a process.
 */
#ifndef LLS_ENGINE_WORKER_RANK_H
#define LLS_ENGINE_WORKER_RANK_H

#include "core/device/devices.h"
#include "core/engine/engine.h"

/* Callbacks for the work of a rank besides its steps. */
struct lls_worker_rank_side {
  void *context;
  int (*begin)(void *context, struct lls_engine *, struct lls_error *err);
  /* Handles a note of rank 0, between the same two steps as rank 0 sent it. */
  int (*heed)(void *context, const struct lls_engine_note *, struct lls_error *err);
  /* called before the engine is destroyed, unless begin has failed */
  void (*end)(void *context);
};

struct lls_worker_rank_options {
  enum lls_device_choice choice;
  const struct lls_devices *builtin; /* devices that `choice` chooses from */
  struct lls_device_options device;  /* lls_worker_rank_run sets device.ranks */
  /* lls_worker_rank_run sets engine.ranks; all that these options point to must outlive
   * the ranks */
  struct lls_engine_options engine;
  struct lls_model_config model;
  /* Creates the device; NULL = lls_device_create with `choice`. */
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  /* NULL = no further work; must outlive the ranks */
  const struct lls_worker_rank_side *side;
};

/* Returns 0 after rank 0 has ended this rank; else a negative errno, with the reason
 * recorded in the group. */
int lls_worker_rank_run(const struct lls_worker_rank_options *, struct lls_ranks *,
                        struct lls_error *err);

/*
 * Starts a thread for each of ranks 1 .. size - 1, which takes over its handle; the
 * caller keeps rank 0's. A failing thread fails the group.
 */
struct lls_worker_ranks;
int lls_worker_ranks_start(const struct lls_worker_rank_options *,
                           struct lls_ranks **handles, uint32_t size,
                           struct lls_worker_ranks **out, struct lls_error *err);
/* Joins the threads, after lls_engine_dismiss or a failure. Returns -ETIMEDOUT if one
 * does not end: then nothing that they use may be freed, and the process should end.
 * NULL is fine. */
int lls_worker_ranks_stop(struct lls_worker_ranks *);

#endif
