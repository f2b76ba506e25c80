/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of [server] state, which outlives the process: an SQLite database (files,
 * batches and how far each has come) and the files themselves.
 *
 * Two threads: [main] posts jobs and is told of their end; [store] is a thread of the
 * store, which alone touches database and files, so that main never waits for a disk.
 * Between jobs it moves batches on (background.c): checks their lines, writes what they
 * have answered, ends them.
 *
 *   core/batch/database.c    SQLite
 *   core/batch/file_table.c       uploads, results
 *   core/batch/batch_table.c batches as rows and as JSON
 *   core/batch/input_line.c  lines of a batch's input
 *   core/batch/validation.c  each of them checked before any is run
 *   core/batch/progress.c    lines handed out, answers written
 *   core/batch/ending.c      what is left when a batch is cancelled or expires, and ends
 *   core/batch/response_table.c   responses that are stored
 *   core/batch/schema.c      the tables, and how older ones become today's
 *   core/batch/background.c  which of these comes next; takes away what has expired
 */
#ifndef LLS_BATCH_STORE_H
#define LLS_BATCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/obs/log.h"

/* Behind the folder's name. */
#define LLS_STORE_IN_USE " is in use by another server: give each a folder of its own"

struct lls_store;

struct lls_store_options {
  const char *folder;          /* made if it is not there; copied */
  const char *model_name;      /* that lines may ask for; copied; NULL: any */
  const char *replica;         /* in ids; copied; NULL or "": alone */
  size_t max_line;             /* bytes */
  const struct lls_log *log;   /* may be NULL */
  void (*wake)(void *context); /* [store] lls_store_deliver has something to do */
  void *wake_context;
};

/* One errand; first member of what a kind of job needs more. */
struct lls_store_job {
  void (*run)(struct lls_store_job *job, struct lls_store *store); /* [store] */
  void (*done)(struct lls_store_job *job);                         /* [main] frees it */
  struct lls_store_job *prev, *next;                               /* of the store */
};

/* Counts for /metrics and /admin/status. */
struct lls_store_counts {
  uint32_t validating, in_progress, ending; /* batches */
  uint64_t lines_queued;                    /* of those: neither answered nor failed */
  uint64_t lines_completed, lines_failed;   /* since the start of the process */
  bool blocked; /* nothing can be written, as on a full disk */
};

/* [main] Waits for the disk. Another process that has the folder open is -EBUSY. */
int lls_store_open(const struct lls_store_options *options, struct lls_store **out,
                   struct lls_error *err);

/* [main] Jobs run in the order in which they are posted. */
void lls_store_post(struct lls_store *store, struct lls_store_job *job);

/* [main] Calls `done` of the jobs that have run. */
void lls_store_deliver(struct lls_store *store);

/* [main] True if a batch has lines to hand out. */
bool lls_store_has_lines(struct lls_store *store);

/* [main] */
void lls_store_count(struct lls_store *store, struct lls_store_counts *out);

/* [main] Runs what was posted, commits, ends the thread and delivers; frees the store. */
void lls_store_close(struct lls_store *store);

#endif
