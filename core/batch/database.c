/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that both kinds of database share; see database.h. */
#include "config.h"

#include "core/batch/database.h"

#include <errno.h>
#include <stdarg.h>

#include "core/base/check.h"

#ifndef LLS_POSTGRESQL
int lls_database_open_server(struct lls_database *database, const char *url,
                             const struct lls_log *log, struct lls_error *err)
{
  (void)database;
  (void)url;
  (void)log;
  return lls_fail(err, -ENOTSUP,
                  "state_database: this llmserve was built without libpq (Debian: "
                  "libpq-dev)");
}
#endif

void lls_database_close(struct lls_database *database)
{
  if (database->kind != NULL)
    database->kind->close(database);
  *database = (struct lls_database){0};
}

static void collect(struct lls_statement *statement, const char *types, va_list values)
{
  for (; *types != '\0'; types++) {
    LLS_CHECK(statement->n_values < LLS_DATABASE_VALUES);
    struct lls_sql_value *value = &statement->values[statement->n_values++];
    value->type = *types;
    if (*types == 't') {
      value->text = va_arg(values, const char *);
    } else if (*types == 'i') {
      value->integer = va_arg(values, int64_t);
    } else {
      value->data = va_arg(values, const void *);
      value->bytes = va_arg(values, size_t);
    }
  }
}

int lls_database_run(struct lls_database *database, lls_database_row row, void *context,
                     struct lls_error *err, const char *sql, const char *types, ...)
{
  struct lls_statement statement = {.sql = sql, .row = row, .context = context};
  va_list values;
  va_start(values, types);
  collect(&statement, types, values);
  va_end(values);
  return database->kind->run(database, &statement, err);
}

int lls_database_begin(struct lls_database *database, struct lls_error *err)
{
  return lls_database_run(database, NULL, NULL, err, "BEGIN IMMEDIATE", "");
}

int lls_database_end(struct lls_database *database, int status, struct lls_error *err)
{
  if (status == 0)
    status = lls_database_run(database, NULL, NULL, err, "COMMIT", "");
  if (status != 0)
    lls_database_run(database, NULL, NULL, NULL, "ROLLBACK", "");
  return status;
}

int lls_row_keep_integer(void *context, const struct lls_result_row *row)
{
  *(int64_t *)context = lls_row_integer(row, 0);
  return 0;
}

int lls_row_add_integer(void *context, const struct lls_result_row *row)
{
  *(int64_t *)context += lls_row_integer(row, 0);
  return 0;
}
