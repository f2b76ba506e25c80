/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end's side of the store ([server] state, core/batch/store.h): files.c,
 * upload.c, download.c and batches.c are its endpoints, batch_runner.c runs the lines of
 * batches. api->front is NULL if the server has no store; in a build without SQLite,
 * no_store.c replaces all of these files (responses/no_memory.c those of responses).
 * Everything runs on [main].
 */
#ifndef LLS_API_STORE_FRONT_H
#define LLS_API_STORE_FRONT_H

#include "core/api/api_internal.h"
#include "core/batch/store.h"

struct lls_batch_runner;

struct lls_store_front {
  struct lls_api *api;
  struct lls_store *store;         /* NULL: closed */
  struct lls_batch_runner *runner; /* batch_runner.h */
  size_t unwritten;                /* bytes of uploads not on the disk yet */
  bool tells_usage, knows_usage;   /* shared_usage.c: a job runs; one has succeeded */
  int64_t told_ns;                 /* time of the last job */
  uv_async_t wake; /* sent when the store has finished a job or a line has finished */
  void (*closed)(struct lls_api *api);
};

/* Opens the store; blocks on the disk, so only used at startup. */
int lls_store_front_open(struct lls_api *api, const char *folder, struct lls_error *err);
/* lls_store_front_feed is called after each wake of the step loop, lls_store_front_tick
 * at each tick of the timer. */
void lls_store_front_feed(struct lls_api *api);
void lls_store_front_tick(struct lls_api *api);
/* Cancels the running lines, which are run again after the next start. */
void lls_store_front_drain(struct lls_api *api);
/* Called when no request is left: writes the pending answers to the disk, then calls
 * back. */
void lls_store_front_close(struct lls_api *api, void (*closed)(struct lls_api *api));
void lls_store_front_free(struct lls_api *api);

/* Posts a job to the store and counts it: a drain waits for it. The job's `done` must
 * call lls_store_errand_over as its last action. */
void lls_store_errand(struct lls_api *api, struct lls_store_job *job);
void lls_store_errand_over(struct lls_api *api);

/* Returns false if the server has no store. */
bool lls_store_front_count(const struct lls_api *api, struct lls_store_counts *out);

/* no_store.c: answers a request that needs a store. */
void lls_store_refuse(struct lls_http_exchange *exchange);

/* Called when the head of an upload has arrived: directs its body to the store. Returns
 * false if the upload is refused; lls_handle_file_create then sends the reason. */
bool lls_upload_on_head(struct lls_api *api, struct lls_http_exchange *exchange);

#endif
