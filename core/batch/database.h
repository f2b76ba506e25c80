/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite as the store uses it: one connection of one thread, WAL, and a commit is on
 * the disk when it returns (synchronous = FULL). All functions run on that thread.
 */
#ifndef LLS_BATCH_DATABASE_H
#define LLS_BATCH_DATABASE_H

#include <sqlite3.h>

#include "core/base/error.h"

struct lls_database {
  sqlite3 *db;
};

/* Opens or creates the file and runs `schema`. "" is a private database without a
 * journal, deleted when it is closed. Returns 0 or a negative errno. */
int lls_database_open(struct lls_database *database, const char *path, const char *schema,
                      struct lls_error *err);
void lls_database_close(struct lls_database *database);

/* Handles one row of a result; a value other than 0 ends the query and is returned from
 * it. */
typedef int (*lls_database_row)(void *context, sqlite3_stmt *row);

/*
 * Runs one statement. `types` has a letter for each parameter: t const char * (NULL is
 * SQL's NULL), i int64_t, b const void * and size_t. `row` may be NULL. Returns 0, the
 * value that `row` returned, or -ENOSPC, -EEXIST (a constraint) or -EIO with err.
 */
int lls_database_run(struct lls_database *database, lls_database_row row, void *context,
                     struct lls_error *err, const char *sql, const char *types, ...);

/* Returns the error of SQLite's last call as a negative errno, and its message in err. */
int lls_database_fail(struct lls_database *database, struct lls_error *err);

#endif
