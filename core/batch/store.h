/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of [server] state, which outlives the process: an SQLite database (files,
 * batches and how far each has come) and the files themselves. Or a database and a
 * folder of files that replicas share ([server] state_database, sharing.h).
 *
 * Two threads: [main] posts jobs, and each job's `done` runs on it; [store], the
 * store's own thread, alone uses the database and files, so that main never waits for a
 * disk. Between jobs it advances batches (background.c): checks their lines, writes
 * their answers, ends them.
 *
 *   core/batch/database.c    SQLite (sqlite.c) or PostgreSQL (postgres.c, postgres_sql.c)
 *   core/batch/sharing.c     what processes with one database agree on
 *   core/batch/usage_table.c what tenants have used at each of them
 *   core/batch/file_table.c       uploads, results
 *   core/batch/batch_table.c batches as rows and as JSON
 *   core/batch/input_line.c  lines of a batch's input
 *   core/batch/validation.c  checks all lines before any is run
 *   core/batch/progress.c    lines handed out, answers written
 *   core/batch/ending.c      the end of a batch: completed, cancelled or expired
 *   core/batch/response_table.c   stored responses
 *   core/batch/schema.c      the tables, and the upgrade of older databases
 *   core/batch/background.c  schedules this work; deletes expired files
 */
#ifndef LLS_BATCH_STORE_H
#define LLS_BATCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/obs/log.h"

/* Follows the folder's name in a message. */
#define LLS_STORE_IN_USE " is in use by another server: give each a folder of its own"

struct lls_store;

struct lls_store_options {
  const char *folder; /* created if it does not exist; copied */
  /* URL of a database that replicas share, and the folder of files, which they share too;
   * copied; NULL or "": a database and files in `folder` */
  const char *database, *files;
  const char *model_name; /* the model that lines may name; copied; NULL: any */
  /* the model that runs lines: processes with other ones do not take batches over;
   * copied */
  const char *served_model;
  /* name of this replica in ids; copied; NULL or "": none */
  const char *replica;
  size_t max_line;             /* most bytes of a batch's line */
  const struct lls_log *log;   /* may be NULL */
  void (*wake)(void *context); /* [store] asks main to call lls_store_deliver */
  void *wake_context;
};

/* A job; the first member of the struct of each kind of job. */
struct lls_store_job {
  void (*run)(struct lls_store_job *job, struct lls_store *store); /* [store] */
  void (*done)(struct lls_store_job *job);                         /* [main] frees it */
  /* owned by the store */
  struct lls_store_job *prev, *next;
};

/* Counts for /metrics and /admin/status. */
struct lls_store_counts {
  uint32_t validating, in_progress, ending; /* numbers of batches */
  /* lines of these batches without an answer or error */
  uint64_t lines_queued;
  uint64_t lines_completed, lines_failed; /* lines since the start of the process */
  bool blocked;                           /* writing fails, as on a full disk */
  bool lost;                              /* the database does not answer */
};

/* [main] Opens the store; waits for the disk. Returns -EBUSY if another process has the
 * folder open. */
int lls_store_open(const struct lls_store_options *options, struct lls_store **out,
                   struct lls_error *err);

/* [main] Jobs run in the order in which they are posted. */
void lls_store_post(struct lls_store *store, struct lls_store_job *job);

/* [main] Calls `done` of the jobs that have finished. */
void lls_store_deliver(struct lls_store *store);

/* [main] True if a batch has lines to hand out. */
bool lls_store_has_lines(struct lls_store *store);

/* [main] True while the database does not answer. */
bool lls_store_is_lost(const struct lls_store *store);

/* [main] True if other processes use the database, too. */
bool lls_store_is_shared(const struct lls_store *store);

/* [main] */
void lls_store_count(struct lls_store *store, struct lls_store_counts *out);

/* [main] Runs the posted jobs, commits, ends the thread and delivers; frees the store. */
void lls_store_close(struct lls_store *store);

#endif
