/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the store: a file of SQLite (sqlite.c), or a PostgreSQL server that
 * replicas share (postgres.c). One connection of one thread; all functions run on it. A
 * commit is on the disk when it returns.
 *
 * The SQL is the same for both: SQLite's, within what postgres_sql.c can translate, with
 * the functions unixepoch() and octet_length() in both.
 */
#ifndef LLS_BATCH_DATABASE_H
#define LLS_BATCH_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/obs/log.h"

/* The status while the server of the database does not answer. The statement may have
 * taken effect all the same. */
#define LLS_DATABASE_LOST (-ENOTCONN)

#define LLS_DATABASE_VALUES 16 /* most parameters of a statement */

struct lls_sql_value {
  char type; /* t, i or b: see lls_database_run */
  const char *text;
  int64_t integer;
  const void *data;
  size_t bytes;
};

/* One row of a result, valid while it is handled. */
struct lls_result_row {
  const struct lls_database_kind *kind;
  void *of; /* what the kind reads it from */
};

/* Handles one row of a result; a value other than 0 ends the query and is returned from
 * it. It runs no statement. */
typedef int (*lls_database_row)(void *context, const struct lls_result_row *row);

struct lls_statement {
  const char *sql;
  struct lls_sql_value values[LLS_DATABASE_VALUES]; /* (n_values) */
  int n_values;
  lls_database_row row; /* may be NULL */
  void *context;
};

struct lls_database {
  const struct lls_database_kind *kind; /* NULL: closed */
  void *connection;                     /* sqlite3 * or struct postgres * */
  bool lost;                            /* the server did not answer the last statement */
};

struct lls_database_kind {
  bool shared; /* other processes use it at the same time */
  int (*run)(struct lls_database *database, const struct lls_statement *statement,
             struct lls_error *err);
  /* Runs several statements without parameters and results. */
  int (*script)(struct lls_database *database, const char *sql, struct lls_error *err);
  /* Reads and writes how many steps of the schema were applied. read_steps runs in the
   * transaction of the upgrade, which no other process can enter meanwhile. */
  int (*read_steps)(struct lls_database *database, int *steps, struct lls_error *err);
  int (*write_steps)(struct lls_database *database, int steps, struct lls_error *err);
  void (*close)(struct lls_database *database);
  const char *(*text)(const struct lls_result_row *row, int column);
  int64_t (*integer)(const struct lls_result_row *row, int column);
  const void *(*blob)(const struct lls_result_row *row, int column, size_t *bytes);
};

/* Opens or creates a file of SQLite. Returns 0 or a negative errno. */
int lls_database_open_file(struct lls_database *database, const char *path,
                           struct lls_error *err);
/* Connects to a PostgreSQL server; waits for it for some seconds. A build without libpq
 * returns -ENOTSUP. log: may be NULL. */
int lls_database_open_server(struct lls_database *database, const char *url,
                             const struct lls_log *log, struct lls_error *err);
void lls_database_close(struct lls_database *database);

/*
 * Runs one statement. `types` has a letter for each parameter: t const char * (NULL is
 * SQL's NULL), i int64_t, b const void * and size_t. `row` may be NULL. Returns 0, the
 * value that `row` returned, or -ENOSPC, -EEXIST (a constraint), LLS_DATABASE_LOST or
 * -EIO with err.
 */
int lls_database_run(struct lls_database *database, lls_database_row row, void *context,
                     struct lls_error *err, const char *sql, const char *types, ...);

/* A transaction: lls_database_end commits if status is 0, else rolls back. Returns the
 * status, or that of the commit. */
int lls_database_begin(struct lls_database *database, struct lls_error *err);
int lls_database_end(struct lls_database *database, int status, struct lls_error *err);

/* Return a column; text: NULL for SQL's NULL. */
static inline const char *lls_row_text(const struct lls_result_row *row, int column)
{
  return row->kind->text(row, column);
}

static inline int64_t lls_row_integer(const struct lls_result_row *row, int column)
{
  return row->kind->integer(row, column);
}

static inline const void *lls_row_blob(const struct lls_result_row *row, int column,
                                       size_t *bytes)
{
  return row->kind->blob(row, column, bytes);
}

/* Callback for a row's first column: keeps an int64_t, or adds it to one. */
int lls_row_keep_integer(void *context, const struct lls_result_row *row);
int lls_row_add_integer(void *context, const struct lls_result_row *row);

#endif
