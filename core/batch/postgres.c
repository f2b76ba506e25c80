/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PostgreSQL server as the store's database. Every wait has an end: a server that does
 * not answer in time counts as lost, and statements then fail at once, until the next
 * attempt to connect, which is made after 0.1 s, then after twice as long, up to 5 s.
 *
 * Rows arrive one by one, so that a long conversation is never in memory twice.
 */
#include "core/batch/database.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/batch/postgres_sql.h"
#include "core/batch/store_internal.h"

#define CONNECT_NS      (5 * LLS_NS_PER_S)
#define ANSWER_NS       (15 * LLS_NS_PER_S)
#define FIRST_WAIT_NS   (100 * LLS_NS_PER_MS)
#define LONGEST_WAIT_NS (5 * LLS_NS_PER_S)

/* types of parameters: pg_type.h, which never changes these */
#define OID_BYTEA 17
#define OID_INT8  20
#define OID_TEXT  25

struct postgres {
  PGconn *connection; /* NULL: not connected */
  char *url;
  const struct lls_log *log;
  bool lost;       /* the log says so */
  int64_t next_ns; /* earliest time of the next attempt to connect */
  int64_t wait_ns; /* between the last attempt and the next one */
};

/* A row, and the bytes of its last decoded column. */
struct decoded {
  const PGresult *result;
  unsigned char *blob;
};

/* ---- the connection ---------------------------------------------------------------- */

/* Copies the first line of a message of libpq, which never has the password. */
static void first_line(const char *message, char line[LLS_ERROR_MAX])
{
  snprintf(line, LLS_ERROR_MAX, "%.*s", (int)strcspn(message, "\n"), message);
}

static void disconnect(struct postgres *pg)
{
  PQfinish(pg->connection);
  pg->connection = NULL;
}

/* Closes the connection; says why once, until there is one again. */
static int lose(struct postgres *pg, struct lls_error *err, const char *why)
{
  char line[LLS_ERROR_MAX];
  first_line(why, line);
  disconnect(pg);
  pg->wait_ns = pg->wait_ns == 0                    ? FIRST_WAIT_NS
                : pg->wait_ns * 2 > LONGEST_WAIT_NS ? LONGEST_WAIT_NS
                                                    : pg->wait_ns * 2;
  pg->next_ns = lls_store_now_ns() + pg->wait_ns;
  if (!pg->lost)
    lls_log(pg->log, LLS_LOG_ERROR, "state", "the database is lost: %.400s", line);
  pg->lost = true;
  return lls_fail(err, LLS_DATABASE_LOST,
                  "the database of [server] state_database does not answer: %.300s",
                  line);
}

/* Waits until the connection's socket can be read or written. */
static bool await(const struct postgres *pg, short events, int64_t until_ns)
{
  for (;;) {
    struct pollfd fd = {.fd = PQsocket(pg->connection), .events = events};
    int64_t left_ns = until_ns - lls_store_now_ns();
    int n = left_ns > 0 ? poll(&fd, 1, (int)(left_ns / LLS_NS_PER_MS) + 1) : 0;
    if (n > 0 || (n < 0 && errno != EINTR))
      return n > 0;
    if (left_ns <= 0)
      return false;
  }
}

static void ignore_notice(void *context, const char *message)
{
  (void)context;
  (void)message;
}

static int connect_to(struct postgres *pg, struct lls_error *err)
{
  /* a setting of the URL overrides the ones before it in these lists */
  static const char *const keys[] = {"client_encoding", "fallback_application_name",
                                     "target_session_attrs", "dbname", NULL};
  const char *const values[] = {"UTF8", "llmserve", "read-write", pg->url, NULL};
  int64_t until_ns = lls_store_now_ns() + CONNECT_NS;
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  pg->connection = PQconnectStartParams(keys, values, 1);
  if (pg->connection == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  if (PQstatus(pg->connection) == CONNECTION_BAD)
    return lose(pg, err, PQerrorMessage(pg->connection));
  while (next != PGRES_POLLING_OK) {
    short events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (next == PGRES_POLLING_FAILED)
      return lose(pg, err, PQerrorMessage(pg->connection));
    if (!await(pg, events, until_ns))
      return lose(pg, err, "no connection in time");
    next = PQconnectPoll(pg->connection);
  }
  PQsetnonblocking(pg->connection, 1);
  PQsetNoticeProcessor(pg->connection, ignore_notice, NULL);
  if (pg->lost)
    lls_log(pg->log, LLS_LOG_INFO, "state", "the database answers again");
  pg->lost = false;
  pg->wait_ns = 0;
  return 0;
}

/* True if the server has closed the connection since the last statement. */
static bool is_dead(const struct postgres *pg)
{
  struct pollfd fd = {.fd = PQsocket(pg->connection), .events = POLLIN};
  return poll(&fd, 1, 0) > 0 && (PQconsumeInput(pg->connection) == 0 ||
                                 PQstatus(pg->connection) == CONNECTION_BAD);
}

/* Connects if need be and the time for it has come. */
static int ensure(struct postgres *pg, struct lls_error *err)
{
  bool idle =
      pg->connection != NULL && PQtransactionStatus(pg->connection) == PQTRANS_IDLE;
  if (idle && is_dead(pg))
    disconnect(pg);
  if (pg->connection != NULL)
    return 0;
  if (lls_store_now_ns() < pg->next_ns)
    return lls_fail(err, LLS_DATABASE_LOST,
                    "the database of [server] state_database does not answer");
  return connect_to(pg, err);
}

/* ---- statements -------------------------------------------------------------------- */

static const struct lls_database_kind postgres;

/* Returns the errno of a statement that the server refused. */
static int fail(const PGresult *result, struct lls_error *err)
{
  const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  state = state != NULL ? state : "";
  int status = strncmp(state, "23", 2) == 0  ? -EEXIST
               : strcmp(state, "53100") == 0 ? -ENOSPC
               : strcmp(state, "22021") == 0 ? -EINVAL /* a text is not UTF-8 */
               : strncmp(state, "40", 2) == 0 ||       /* another replica was first */
                       strncmp(state, "57", 2) == 0 || strncmp(state, "08", 2) == 0 ||
                       strcmp(state, "55P03") == 0 || strcmp(state, "25006") == 0
                   ? LLS_DATABASE_LOST
                   : -EIO;
  return lls_fail(err, status, "the database of [server] state_database: %.300s",
                  text != NULL ? text : "no reason");
}

/* Sends the bytes that libpq has not sent yet. */
static int flush(struct postgres *pg, int64_t until_ns, struct lls_error *err)
{
  int left;
  while ((left = PQflush(pg->connection)) > 0) {
    if (!await(pg, POLLIN | POLLOUT, until_ns))
      return lose(pg, err, "no answer in time");
    if (PQconsumeInput(pg->connection) == 0)
      return lose(pg, err, PQerrorMessage(pg->connection));
  }
  return left == 0 ? 0 : lose(pg, err, PQerrorMessage(pg->connection));
}

/* Handles one result of a statement. */
static int take(const struct lls_statement *what, const PGresult *result,
                struct lls_error *err)
{
  ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
    return 0;
  if (status != PGRES_SINGLE_TUPLE)
    return fail(result, err);
  struct decoded decoded = {.result = result};
  const struct lls_result_row row = {.kind = &postgres, .of = &decoded};
  int rc = what->row != NULL ? what->row(what->context, &row) : 0;
  PQfreemem(decoded.blob);
  return rc;
}

/* Reads all results of the statement that was sent; the first failure ends neither the
 * reading nor the connection. */
static int receive(struct postgres *pg, const struct lls_statement *what,
                   struct lls_error *err)
{
  int64_t until_ns = lls_store_now_ns() + ANSWER_NS;
  int status = flush(pg, until_ns, err);
  if (status != 0)
    return status;
  for (;;) {
    while (PQisBusy(pg->connection)) {
      if (!await(pg, POLLIN, until_ns))
        return lose(pg, err, "no answer in time");
      if (PQconsumeInput(pg->connection) == 0)
        return lose(pg, err, PQerrorMessage(pg->connection));
    }
    PGresult *result = PQgetResult(pg->connection);
    if (result == NULL)
      break;
    if (status == 0)
      status = take(what, result, err);
    PQclear(result);
  }
  if (PQstatus(pg->connection) == CONNECTION_BAD)
    return lose(pg, err, PQerrorMessage(pg->connection));
  return status;
}

struct parameters {
  Oid types[LLS_DATABASE_VALUES];
  const char *values[LLS_DATABASE_VALUES];
  int lengths[LLS_DATABASE_VALUES];
  int formats[LLS_DATABASE_VALUES];      /* 1: binary */
  char numbers[LLS_DATABASE_VALUES][24]; /* integers as text */
};

static void fill(struct parameters *p, const struct lls_statement *what)
{
  for (int i = 0; i < what->n_values; i++) {
    const struct lls_sql_value *value = &what->values[i];
    p->types[i] = value->type == 't'   ? OID_TEXT
                  : value->type == 'i' ? OID_INT8
                                       : OID_BYTEA;
    snprintf(p->numbers[i], sizeof p->numbers[i], "%lld", (long long)value->integer);
    p->values[i] = value->type == 't'   ? value->text
                   : value->type == 'i' ? p->numbers[i]
                                        : value->data;
    p->lengths[i] = (int)value->bytes;
    p->formats[i] = value->type == 'b';
  }
}

/* Translates a statement. Returns NULL if out of memory; the caller frees it. */
static char *translate(const char *sql, struct lls_error *err)
{
  struct lls_text text = {0};
  lls_postgres_sql(sql, &text);
  if (!text.failed)
    return text.data;
  lls_text_free(&text);
  lls_fail(err, -ENOMEM, "out of memory");
  return NULL;
}

static int send(struct postgres *pg, const struct lls_statement *what,
                struct lls_error *err)
{
  struct parameters p;
  int status = ensure(pg, err);
  char *sql = status == 0 ? translate(what->sql, err) : NULL;
  if (sql == NULL)
    return status != 0 ? status : -ENOMEM;
  fill(&p, what);
  int sent = PQsendQueryParams(pg->connection, sql, what->n_values, p.types, p.values,
                               p.lengths, p.formats, 0);
  free(sql);
  if (sent == 0)
    return lose(pg, err, PQerrorMessage(pg->connection));
  PQsetSingleRowMode(pg->connection);
  return receive(pg, what, err);
}

static int run(struct lls_database *database, const struct lls_statement *what,
               struct lls_error *err)
{
  int status = send(database->connection, what, err);
  database->lost = ((struct postgres *)database->connection)->connection == NULL;
  return status;
}

static int script(struct lls_database *database, const char *text, struct lls_error *err)
{
  struct postgres *pg = database->connection;
  static const struct lls_statement nothing;
  int status = ensure(pg, err);
  char *sql = status == 0 ? translate(text, err) : NULL;
  if (sql == NULL)
    return status != 0 ? status : -ENOMEM;
  int sent = PQsendQuery(pg->connection, sql);
  free(sql);
  return sent != 0 ? receive(pg, &nothing, err)
                   : lose(pg, err, PQerrorMessage(pg->connection));
}

/* ---- the schema -------------------------------------------------------------------- */

static int read_steps(struct lls_database *database, int *steps, struct lls_error *err)
{
  int64_t found = 0;
  int status = lls_database_run(database, NULL, NULL, err,
                                "SELECT pg_advisory_xact_lock(hashtext('llmserve'))", "");
  if (status == 0)
    status = script(database,
                    "CREATE TABLE IF NOT EXISTS schema_steps (one INTEGER PRIMARY KEY, "
                    "steps INTEGER NOT NULL)",
                    err);
  if (status == 0)
    status = lls_database_run(database, lls_row_keep_integer, &found, err,
                              "SELECT steps FROM schema_steps", "");
  *steps = (int)found;
  return status;
}

static int write_steps(struct lls_database *database, int steps, struct lls_error *err)
{
  int status = script(database,
                      "CREATE OR REPLACE FUNCTION unixepoch() RETURNS INTEGER "
                      "LANGUAGE sql STABLE AS "
                      "$$ SELECT floor(extract(epoch FROM now()))::INTEGER $$",
                      err);
  if (status != 0)
    return status;
  return lls_database_run(database, NULL, NULL, err,
                          "INSERT INTO schema_steps VALUES (1, ?1) ON CONFLICT (one) DO "
                          "UPDATE SET steps = ?1",
                          "i", (int64_t)steps);
}

/* ---- rows -------------------------------------------------------------------------- */

static const char *column_text(const struct lls_result_row *row, int column)
{
  const struct decoded *decoded = row->of;
  bool is_null = PQgetisnull(decoded->result, 0, column);
  return is_null ? NULL : PQgetvalue(decoded->result, 0, column);
}

static int64_t column_integer(const struct lls_result_row *row, int column)
{
  const char *text = column_text(row, column);
  if (text == NULL)
    return 0;
  return strcmp(text, "t") == 0 ? 1 : strtoll(text, NULL, 10);
}

static const void *column_blob(const struct lls_result_row *row, int column,
                               size_t *bytes)
{
  struct decoded *decoded = row->of;
  const char *text = column_text(row, column);
  *bytes = 0;
  PQfreemem(decoded->blob);
  decoded->blob =
      text != NULL ? PQunescapeBytea((const unsigned char *)text, bytes) : NULL;
  return decoded->blob;
}

/* ---- life -------------------------------------------------------------------------- */

static void close_server(struct lls_database *database)
{
  struct postgres *pg = database->connection;
  disconnect(pg);
  free(pg->url);
  free(pg);
}

static const struct lls_database_kind postgres = {
    .shared = true,
    .run = run,
    .script = script,
    .read_steps = read_steps,
    .write_steps = write_steps,
    .close = close_server,
    .text = column_text,
    .integer = column_integer,
    .blob = column_blob,
};

int lls_database_open_server(struct lls_database *database, const char *url,
                             const struct lls_log *log, struct lls_error *err)
{
  struct postgres *pg = calloc(1, sizeof *pg);
  char *copy = strdup(url);
  if (pg == NULL || copy == NULL) {
    free(pg);
    free(copy);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  pg->url = copy;
  pg->log = log;
  *database = (struct lls_database){.kind = &postgres, .connection = pg};
  int status = connect_to(pg, err);
  if (status != 0)
    lls_database_close(database);
  return status;
}
