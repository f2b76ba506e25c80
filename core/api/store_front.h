/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end's side of the store ([server] state, core/batch/store.h): files.c,
 * upload.c, download.c and batches.c are its endpoints, batch_runner.c runs the lines of
 * batches. api->front is NULL where there is none; without SQLite no_store.c stands for
 * all of them. Everything is of [main].
 */
#ifndef LLS_API_STORE_FRONT_H
#define LLS_API_STORE_FRONT_H

#include "core/api/api_internal.h"
#include "core/batch/store.h"

struct lls_batch_runner;

struct lls_store_front {
  struct lls_api *api;
  struct lls_store *store;         /* NULL: it is closed */
  struct lls_batch_runner *runner; /* batch_runner.h */
  size_t unwritten;                /* bytes of uploads that wait for the disk */
  uv_async_t wake; /* the store has something to deliver, or a line came to its end */
  void (*closed)(struct lls_api *api);
};

/* Waits for the disk; for the start. */
int lls_store_front_open(struct lls_api *api, const char *folder, struct lls_error *err);
/* To be called after each wake of the step loop, and each tick of the timer. */
void lls_store_front_feed(struct lls_api *api);
void lls_store_front_tick(struct lls_api *api);
/* Lines that run are given up: they are run again after the next start. */
void lls_store_front_drain(struct lls_api *api);
/* Once no request is left: writes what was answered, then calls back. */
void lls_store_front_close(struct lls_api *api, void (*closed)(struct lls_api *api));
void lls_store_front_free(struct lls_api *api);

/* Posts a job to the store, and counts it: a drain waits until its `done` has said, last
 * of all, that it is over. */
void lls_store_errand(struct lls_api *api, struct lls_store_job *job);
void lls_store_errand_over(struct lls_api *api);

/* False where there is no store. */
bool lls_store_front_count(const struct lls_api *api, struct lls_store_counts *out);

/* The head of an upload has come: its body goes to the store. False: it is not wanted, as
 * lls_handle_file_create tells the client. */
bool lls_upload_on_head(struct lls_api *api, struct lls_http_exchange *exchange);

#endif
