/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite as the store uses it: one connection of one thread, WAL, a commit is on the disk
 * when it returns (synchronous = FULL). All functions are of that thread.
 */
#ifndef LLS_BATCH_DATABASE_H
#define LLS_BATCH_DATABASE_H

#include <sqlite3.h>

#include "core/base/error.h"

struct lls_database {
  sqlite3 *db;
};

/* Opens or makes the file and runs `schema`; "" is a private one that goes when it is
 * closed, without a journal. 0, or a negative errno and why. */
int lls_database_open(struct lls_database *database, const char *path, const char *schema,
                      struct lls_error *err);
void lls_database_close(struct lls_database *database);

/* One row of a result; other than 0 ends the query with it. */
typedef int (*lls_database_row)(void *context, sqlite3_stmt *row);

/*
 * Runs one statement whose parameters are, a letter each in `types`: t const char * (NULL
 * is NULL), i int64_t, b const void * and size_t. `row` may be NULL. 0, what `row`
 * returned, or -ENOSPC, -EEXIST (a constraint), -EIO and why.
 */
int lls_database_run(struct lls_database *database, lls_database_row row, void *context,
                     struct lls_error *err, const char *sql, const char *types, ...);

/* The error of SQLite's last call as a negative errno, with its sentence. */
int lls_database_fail(struct lls_database *database, struct lls_error *err);

#endif
