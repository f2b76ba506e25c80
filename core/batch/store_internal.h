/* SPDX-License-Identifier: Apache-2.0 */
/* The store's internals, for core/batch only. */
#ifndef LLS_BATCH_STORE_INTERNAL_H
#define LLS_BATCH_STORE_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/check.h"
#include "core/batch/database.h"
#include "core/batch/store.h"
#include "core/config/limits.h"

#define LLS_PROCESS_ID_BYTES 40

/* Most batches active at once, the oldest ones; later batches wait in the database.
 * This bounds the open files, and a long batch does not block short ones. */
#define LLS_STORE_ACTIVE 32

struct lls_active;

struct lls_store {
  char folder[PATH_MAX - 128];
  char files[PATH_MAX - 128]; /* folder of the bodies of files */
  char
      id[LLS_PROCESS_ID_BYTES]; /* this process, among those of the database; "": alone */
  int64_t beaten_ns;            /* time of the last heartbeat (sharing.h) */
  char *model_name, *served_model;
  char replica[LLS_REPLICA_MAX + 1]; /* name of this replica; "": it is the only one */
  size_t max_line;
  const struct lls_log *log;
  void (*wake)(void *context);
  void *wake_context;
  int lock;         /* lock file on the folder */
  const void *main; /* the thread that opened it */
  pthread_t thread; /* [store] */

  /* [store] */
  struct lls_database database;
  struct lls_active *active[LLS_STORE_ACTIVE]; /* (n_active) */
  uint32_t n_active;
  uint32_t turn;  /* counts up; picks the batch of the next line */
  bool admitting; /* the database may have batches that are not active */
  uint64_t lines_completed, lines_failed; /* lines since the start of the process */
  int64_t blocked_ns;         /* time at which writing began to fail; 0: it works */
  struct lls_error why;       /* why it fails */
  int64_t swept_ns;           /* time of the last sweep of expired data */
  bool counted_responses;     /* response_bytes is known */
  int64_t response_bytes;     /* sum over all stored responses */
  struct lls_upload *uploads; /* utlist: uploads in progress */

  atomic_bool has_lines;
  atomic_bool lost; /* the database does not answer */

  pthread_mutex_t mutex; /* guards the following members */
  pthread_cond_t posted_one;
  struct lls_store_job *posted, *run; /* utlists */
  bool stop;
  struct lls_store_counts counts;
};

/* [store] Reads a monotonic clock. */
int64_t lls_store_now_ns(void);

/* [store] Notes that writing has failed: no line is handed out until a write succeeds,
 * which is tried every few seconds. Logs it once. Returns status. */
int lls_store_block(struct lls_store *store, int status, const struct lls_error *why);
void lls_store_unblock(struct lls_store *store);

/* [store] Does one piece of work for the batches. Returns the ms until the next one, 0:
 * at once. */
int lls_store_background(struct lls_store *store);
/* [store] At the end: writes the pending answers, and frees the active batches. */
void lls_store_end_background(struct lls_store *store);

/* [store] Makes the path of a file: kind "files" of a client's, else of the folder. */
void lls_store_path(const struct lls_store *store, const char *kind, const char *name,
                    char path[PATH_MAX]);

#endif
