/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite: WAL, and synchronous = FULL. Statements are compiled each time they run: a few
 * each second. */
#include "core/batch/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/batch/database.h"

int lls_sqlite_fail(sqlite3 *db, struct lls_error *err)
{
  int code = sqlite3_errcode(db) & 0xff;
  int status = code == SQLITE_FULL         ? -ENOSPC
               : code == SQLITE_CONSTRAINT ? -EEXIST
               : code == SQLITE_NOMEM      ? -ENOMEM
                                           : -EIO;
  return lls_fail(err, status, "the database of [server] state: %s", sqlite3_errmsg(db));
}

/* ---- opening ----------------------------------------------------------------------- */

/* Fails to open. A damaged database is not moved aside, because the next start would
 * delete all files that have no row. */
static int fail_open(sqlite3 *db, const char *path, struct lls_error *err)
{
  int code = sqlite3_errcode(db) & 0xff;
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB)
    return lls_sqlite_fail(db, err);
  return lls_fail(err, -EIO,
                  "%s: %s: repair it with sqlite3's .recover, or begin anew in another "
                  "folder",
                  path, sqlite3_errmsg(db));
}

/* Creates the file readable by the server's user alone, since it has clients' texts;
 * SQLite gives the other files of a database the same mode. SQLite reports a failure. */
static void create_private(const char *path)
{
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0)
    close(fd);
}

int lls_sqlite_open(sqlite3 **out, const char *path, const char *sql,
                    struct lls_error *err)
{
  static const char durable[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                "PRAGMA busy_timeout = 5000;";
  static const char private[] = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;";
  const char *mode = path[0] != '\0' ? durable : private;
  if (path[0] != '\0')
    create_private(path);
  int status = sqlite3_open_v2(
      path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (*out == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  if (status == SQLITE_OK)
    status = sqlite3_exec(*out, mode, NULL, NULL, NULL);
  if (status == SQLITE_OK)
    status = sqlite3_exec(*out, sql, NULL, NULL, NULL);
  if (status == SQLITE_OK)
    return 0;
  status = fail_open(*out, path, err);
  sqlite3_close(*out);
  *out = NULL;
  return status;
}

/* ---- statements -------------------------------------------------------------------- */

static void bind(sqlite3_stmt *statement, int i, const struct lls_sql_value *value)
{
  if (value->type == 't')
    sqlite3_bind_text(statement, i, value->text, -1, SQLITE_STATIC);
  else if (value->type == 'i')
    sqlite3_bind_int64(statement, i, value->integer);
  else
    sqlite3_bind_blob(statement, i, value->data, (int)value->bytes, SQLITE_STATIC);
}

static const struct lls_database_kind sqlite;

static int run(struct lls_database *database, const struct lls_statement *what,
               struct lls_error *err)
{
  sqlite3_stmt *statement;
  int code, status = 0;
  if (sqlite3_prepare_v2(database->connection, what->sql, -1, &statement, NULL) !=
      SQLITE_OK)
    return lls_sqlite_fail(database->connection, err);
  const struct lls_result_row row = {.kind = &sqlite, .of = statement};
  for (int i = 0; i < what->n_values; i++)
    bind(statement, i + 1, &what->values[i]);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == 0)
    status = what->row != NULL ? what->row(what->context, &row) : 0;
  if (code != SQLITE_DONE && code != SQLITE_ROW)
    status = lls_sqlite_fail(database->connection, err);
  sqlite3_finalize(statement);
  return status;
}

static int script(struct lls_database *database, const char *sql, struct lls_error *err)
{
  if (sqlite3_exec(database->connection, sql, NULL, NULL, NULL) == SQLITE_OK)
    return 0;
  return lls_sqlite_fail(database->connection, err);
}

static int read_steps(struct lls_database *database, int *steps, struct lls_error *err)
{
  int64_t found = 0;
  int status = lls_database_run(database, lls_row_keep_integer, &found, err,
                                "PRAGMA user_version", "");
  *steps = (int)found;
  return status;
}

static int write_steps(struct lls_database *database, int steps, struct lls_error *err)
{
  char sql[48];
  snprintf(sql, sizeof sql, "PRAGMA user_version = %d", steps);
  return script(database, sql, err);
}

static void close_file(struct lls_database *database)
{
  sqlite3_close(database->connection);
}

static const char *column_text(const struct lls_result_row *row, int column)
{
  return (const char *)sqlite3_column_text(row->of, column);
}

static int64_t column_integer(const struct lls_result_row *row, int column)
{
  return sqlite3_column_int64(row->of, column);
}

static const void *column_blob(const struct lls_result_row *row, int column,
                               size_t *bytes)
{
  const void *data = sqlite3_column_blob(row->of, column);
  *bytes = (size_t)sqlite3_column_bytes(row->of, column);
  return data;
}

static const struct lls_database_kind sqlite = {
    .run = run,
    .script = script,
    .read_steps = read_steps,
    .write_steps = write_steps,
    .close = close_file,
    .text = column_text,
    .integer = column_integer,
    .blob = column_blob,
};

/* ---- the store's file -------------------------------------------------------------- */

/* octet_length(text), which SQLite has since 3.43. */
static void octet_length(sqlite3_context *context, int n, sqlite3_value **values)
{
  (void)n;
  sqlite3_result_int64(context, sqlite3_value_bytes(values[0]));
}

int lls_database_open_file(struct lls_database *database, const char *path,
                           struct lls_error *err)
{
  sqlite3 *db;
  int status = lls_sqlite_open(&db, path, "", err);
  if (status < 0)
    return status;
  *database = (struct lls_database){.kind = &sqlite, .connection = db};
  if (sqlite3_create_function(db, "octet_length", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                              NULL, octet_length, NULL, NULL) == SQLITE_OK)
    return 0;
  status = lls_sqlite_fail(db, err);
  lls_database_close(database);
  return status;
}
