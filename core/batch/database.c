/* SPDX-License-Identifier: Apache-2.0 */
/* See database.h. Statements are compiled each time they run: a few each second. */
#include "core/batch/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int lls_database_fail(struct lls_database *database, struct lls_error *err)
{
  int code = sqlite3_errcode(database->db) & 0xff;
  int status = code == SQLITE_FULL         ? -ENOSPC
               : code == SQLITE_CONSTRAINT ? -EEXIST
               : code == SQLITE_NOMEM      ? -ENOMEM
                                           : -EIO;
  return lls_fail(err, status, "the database of [server] state: %s",
                  sqlite3_errmsg(database->db));
}

/* Fails to open. A damaged database is not moved aside, because the next start would
 * delete all files that have no row. */
static int fail_open(struct lls_database *database, const char *path,
                     struct lls_error *err)
{
  int code = sqlite3_errcode(database->db) & 0xff;
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB)
    return lls_database_fail(database, err);
  return lls_fail(err, -EIO,
                  "%s: %s: repair it with sqlite3's .recover, or begin anew in another "
                  "folder",
                  path, sqlite3_errmsg(database->db));
}

/* Creates the file readable by the server's user alone, since it has clients' texts;
 * SQLite gives the other files of a database the same mode. SQLite reports a failure. */
static void create_private(const char *path)
{
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0)
    close(fd);
}

int lls_database_open(struct lls_database *database, const char *path, const char *schema,
                      struct lls_error *err)
{
  static const char durable[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                "PRAGMA busy_timeout = 5000;";
  static const char private[] = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;";
  const char *mode = path[0] != '\0' ? durable : private;
  if (path[0] != '\0')
    create_private(path);
  int status = sqlite3_open_v2(
      path, &database->db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (database->db == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  if (status == SQLITE_OK)
    status = sqlite3_exec(database->db, mode, NULL, NULL, NULL);
  if (status == SQLITE_OK)
    status = sqlite3_exec(database->db, schema, NULL, NULL, NULL);
  if (status == SQLITE_OK)
    return 0;
  status = fail_open(database, path, err);
  lls_database_close(database);
  return status;
}

void lls_database_close(struct lls_database *database)
{
  sqlite3_close(database->db);
  database->db = NULL;
}

static void bind(sqlite3_stmt *statement, const char *types, va_list values)
{
  for (int i = 1; *types != '\0'; types++, i++) {
    if (*types == 't') {
      sqlite3_bind_text(statement, i, va_arg(values, const char *), -1, SQLITE_STATIC);
    } else if (*types == 'i') {
      sqlite3_bind_int64(statement, i, va_arg(values, int64_t));
    } else {
      const void *data = va_arg(values, const void *);
      sqlite3_bind_blob(statement, i, data, (int)va_arg(values, size_t), SQLITE_STATIC);
    }
  }
}

int lls_database_run(struct lls_database *database, lls_database_row row, void *context,
                     struct lls_error *err, const char *sql, const char *types, ...)
{
  sqlite3_stmt *statement;
  va_list values;
  int code, status = 0;
  if (sqlite3_prepare_v2(database->db, sql, -1, &statement, NULL) != SQLITE_OK)
    return lls_database_fail(database, err);
  va_start(values, types);
  bind(statement, types, values);
  va_end(values);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == 0)
    status = row != NULL ? row(context, statement) : 0;
  if (code != SQLITE_DONE && code != SQLITE_ROW)
    status = lls_database_fail(database, err);
  sqlite3_finalize(statement);
  return status;
}
