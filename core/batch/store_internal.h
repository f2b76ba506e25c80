/* SPDX-License-Identifier: Apache-2.0 */
/* The store from within; for core/batch only. */
#ifndef LLS_BATCH_STORE_INTERNAL_H
#define LLS_BATCH_STORE_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/check.h"
#include "core/batch/database.h"
#include "core/batch/store.h"
#include "core/config/limits.h"

/* Batches that are worked on at once, the oldest first; the others wait in the database.
 * So many files are open, and a long batch does not keep short ones waiting. */
#define LLS_STORE_ACTIVE 32

struct lls_active;

struct lls_store {
  char folder[PATH_MAX - 128];
  char *model_name;
  char replica[LLS_REPLICA_MAX + 1]; /* "": it is alone */
  size_t max_line;
  const struct lls_log *log;
  void (*wake)(void *context);
  void *wake_context;
  int lock;         /* file that says who has the folder */
  const void *main; /* the thread that opened it */
  pthread_t thread; /* [store] */

  /* [store] */
  struct lls_database database;
  struct lls_active *active[LLS_STORE_ACTIVE]; /* (n_active) */
  uint32_t n_active;
  uint32_t turn;  /* whose line is handed out next */
  bool admitting; /* the database may have batches that are not active */
  uint64_t lines_completed, lines_failed; /* since the start */
  int64_t blocked_ns;                     /* when writing failed, 0: it works */
  struct lls_error why;                   /* then */
  int64_t swept_ns;                       /* when what has expired was taken away */
  bool counted_responses;                 /* response_bytes is known */
  int64_t response_bytes;                 /* of all that are stored */
  struct lls_upload *uploads;             /* utlist: files on their way in */

  atomic_bool has_lines;

  pthread_mutex_t mutex; /* of what follows */
  pthread_cond_t posted_one;
  struct lls_store_job *posted, *run; /* utlists */
  bool stop;
  struct lls_store_counts counts;
};

/* [store] On a clock that only goes on. */
int64_t lls_store_now_ns(void);

/* [store] Writing has failed: nothing is handed out until it works again, which is tried
 * every few seconds. Logged once. Returns status. */
int lls_store_block(struct lls_store *store, int status, const struct lls_error *why);
void lls_store_unblock(struct lls_store *store);

/* [store] One piece of work for the batches; ms until the next, 0: at once. */
int lls_store_background(struct lls_store *store);
/* [store] At the end: writes what was answered, and forgets the batches in memory. */
void lls_store_end_background(struct lls_store *store);

/* [store] PATH of a file below the folder. */
void lls_store_path(const struct lls_store *store, const char *kind, const char *name,
                    char path[PATH_MAX]);

#endif
