/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite, as the store's database and for what only one process needs for a moment. */
#ifndef LLS_BATCH_SQLITE_H
#define LLS_BATCH_SQLITE_H

#include <sqlite3.h>

#include "core/base/error.h"

/* Opens or creates the file and runs `sql`. "" is a private database, deleted when it is
 * closed. Returns 0 or a negative errno. */
int lls_sqlite_open(sqlite3 **out, const char *path, const char *sql,
                    struct lls_error *err);

/* Returns the error of SQLite's last call as a negative errno, and its message in err. */
int lls_sqlite_fail(sqlite3 *db, struct lls_error *err);

#endif
