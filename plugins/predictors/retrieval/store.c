/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite in journal mode WAL with synchronous = NORMAL: a commit is one write to the
 * journal (some 30 us), and fsync happens when the journal is merged into the file. A
 * killed process loses uncommitted data, a crashed machine perhaps the last seconds;
 * neither leaves a broken file.
 *
 * The lock is a POSIX lock, which belongs to the process: in a reload the old and the
 * new instance have the file open at once, and SQLite separates their writes. When one
 * of them closes the file, the process loses its lock, so a writer locks again at the
 * beginning of each transaction.
 */
#include "plugins/predictors/retrieval/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_MS 5000

struct store {
  const struct lls_host *host;
  char path[PATH_MAX - 8];
  char *model; /* rows of this and of space are ours */
  uint64_t space;
  int lock;
  sqlite3 *db;
  sqlite3_stmt *add, *change, *drop, *load;
  uint32_t dims;
  bool writing; /* inside a transaction */
  bool lost;    /* another process has taken the lock, or the disk is full: said once */
};

/* ---- the lock ---------------------------------------------------------------------- */

static int take_lock(int fd, pid_t *owner)
{
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(fd, F_SETLK, &l) == 0)
    return 0;
  *owner = fcntl(fd, F_GETLK, &l) == 0 ? l.l_pid : 0;
  return -EBUSY;
}

static int open_lock(struct store *s)
{
  char path[PATH_MAX];
  pid_t owner = 0;
  snprintf(path, sizeof path, "%s.lock", s->path);
  s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (s->lock < 0)
    return s->host->fail(s->host->context, -errno, "%s: cannot open: %s", path,
                         strerror(errno));
  if (take_lock(s->lock, &owner) == 0)
    return 0;
  return s->host->fail(s->host->context, -EBUSY,
                       "%s is in use by another server (process %ld): give each server a "
                       "db_file of its own",
                       s->path, (long)owner);
}

/* ---- opening ----------------------------------------------------------------------- */

static int failed(const struct store *s)
{
  return s->host->fail(s->host->context, -EIO, "%s: %s", s->path, sqlite3_errmsg(s->db));
}

static int run(const struct store *s, const char *sql)
{
  return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s);
}

static int prepare(struct store *s)
{
  static const char *const sql[] = {
      "INSERT INTO answer(model, space, length, made, vector) "
      "VALUES (?1, ?2, ?3, strftime('%s', 'now'), ?4)",
      "UPDATE answer SET length = ?1, made = strftime('%s', 'now') WHERE id = ?2",
      "DELETE FROM answer WHERE model = ?1 AND space = ?2 AND id < ?3",
      "SELECT id, length, vector FROM answer WHERE model = ?1 AND space = ?2 AND id > ?3 "
      "ORDER BY id DESC LIMIT ?4",
  };
  sqlite3_stmt **const out[] = {&s->add, &s->change, &s->drop, &s->load};
  for (size_t i = 0; i < sizeof sql / sizeof *sql; i++)
    if (sqlite3_prepare_v2(s->db, sql[i], -1, out[i], NULL) != SQLITE_OK)
      return failed(s);
  return 0;
}

/* Binds the store's model and space in the statements that take them. */
static void bind_owner(struct store *s)
{
  sqlite3_stmt *const all[] = {s->add, s->drop, s->load};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sqlite3_bind_text(all[i], 1, s->model, -1, SQLITE_STATIC);
    sqlite3_bind_int64(all[i], 2, (sqlite3_int64)s->space);
  }
}

static void close_database(struct store *s)
{
  sqlite3_finalize(s->add);
  sqlite3_finalize(s->change);
  sqlite3_finalize(s->drop);
  sqlite3_finalize(s->load);
  sqlite3_close(s->db);
  s->add = s->change = s->drop = s->load = NULL;
  s->db = NULL;
}

/* True if the file holds something else, or was damaged. */
static bool is_corrupt(const struct store *s)
{
  int code = s->db != NULL ? sqlite3_errcode(s->db) & 0xff : SQLITE_OK;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

/* Renames a damaged file and its journal, to be repaired by hand; replaces
 * files set aside earlier. */
static int set_aside(const struct store *s, const char *why)
{
  static const char *const parts[] = {"", "-wal", "-shm"};
  char from[PATH_MAX], to[PATH_MAX];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(from, sizeof from, "%s%s", s->path, parts[i]);
    snprintf(to, sizeof to, "%s.bad%s", s->path, parts[i]);
    if (rename(from, to) < 0 && errno != ENOENT)
      return s->host->fail(s->host->context, -errno,
                           "%s: %s, and cannot be set aside: %s", s->path, why,
                           strerror(errno));
  }
  s->host->log(s->host->context, LLS_LOG_WARNING,
               "%s: %s: it is set aside as %s.bad, and the history begins anew", s->path,
               why, s->path);
  return 0;
}

static int try_database(struct store *s)
{
  if (sqlite3_open_v2(s->path, &s->db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      NULL) != SQLITE_OK)
    return failed(s);
  sqlite3_busy_timeout(s->db, BUSY_MS);
  int rc =
      run(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
             "PRAGMA temp_store = MEMORY;"
             "CREATE TABLE IF NOT EXISTS answer(id INTEGER PRIMARY KEY AUTOINCREMENT,"
             " model TEXT NOT NULL, space INTEGER NOT NULL, length INTEGER NOT NULL,"
             " made INTEGER NOT NULL, vector BLOB NOT NULL);"
             "CREATE INDEX IF NOT EXISTS owner ON answer(model, space, id)");
  if (rc == 0)
    rc = prepare(s);
  if (rc == 0)
    bind_owner(s);
  return rc;
}

/* Sets a damaged file aside and begins an empty one, so that the server can start. */
static int begin_anew(struct store *s)
{
  char why[128];
  snprintf(why, sizeof why, "%s", sqlite3_errmsg(s->db));
  close_database(s);
  int rc = set_aside(s, why);
  return rc < 0 ? rc : try_database(s);
}

int store_open(const struct store_options *o, const struct lls_host *host,
               struct store **out)
{
  struct store *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->host = host;
  s->dims = o->dims;
  s->lock = -1;
  s->space = o->space;
  s->model = strdup(o->model);
  int rc = s->model != NULL ? 0 : -ENOMEM;
  if (rc == 0 && snprintf(s->path, sizeof s->path, "%s", o->path) >= (int)sizeof s->path)
    rc = host->fail(host->context, -ENAMETOOLONG, "db_file: the path is too long");
  if (rc == 0)
    rc = open_lock(s);
  if (rc == 0)
    rc = try_database(s);
  if (rc < 0 && is_corrupt(s))
    rc = begin_anew(s);
  if (rc < 0) {
    store_close(s);
    return rc;
  }
  *out = s;
  return 0;
}

void store_close(struct store *s)
{
  if (s == NULL)
    return;
  if (s->db != NULL && s->writing)
    store_commit(s);
  close_database(s);
  if (s->lock >= 0)
    close(s->lock);
  free(s->model);
  free(s);
}

/* ---- reading ----------------------------------------------------------------------- */

int store_load(struct store *s, int64_t after, uint32_t most,
               void (*row)(void *context, int64_t id, uint32_t length,
                           const float *vector),
               void *context)
{
  int rc;
  sqlite3_bind_int64(s->load, 3, after);
  sqlite3_bind_int64(s->load, 4, most);
  while ((rc = sqlite3_step(s->load)) == SQLITE_ROW) {
    int64_t length = sqlite3_column_int64(s->load, 1);
    const void *vector = sqlite3_column_blob(s->load, 2);
    if (vector == NULL || length < 1 || length > UINT32_MAX ||
        (size_t)sqlite3_column_bytes(s->load, 2) != s->dims * sizeof(float))
      continue; /* the row is not valid */
    row(context, sqlite3_column_int64(s->load, 0), (uint32_t)length, vector);
  }
  if (rc != SQLITE_DONE && is_corrupt(s))
    return begin_anew(s); /* what could be read is in memory */
  sqlite3_reset(s->load);
  return rc == SQLITE_DONE ? 0 : failed(s);
}

/* ---- writing ----------------------------------------------------------------------- */

/* Stops all further writing; predictions continue from memory. */
static int give_up(struct store *s, const char *why)
{
  if (!s->lost)
    s->host->log(s->host->context, LLS_LOG_WARNING,
                 "%s: %s; answers are remembered in memory only", s->path, why);
  s->lost = true;
  return -EIO;
}

static int begin(struct store *s)
{
  pid_t owner;
  if (s->lost)
    return -EIO;
  if (s->writing)
    return 0;
  if (take_lock(s->lock, &owner) < 0)
    return give_up(s, "another server has taken it");
  if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
    return give_up(s, sqlite3_errmsg(s->db));
  s->writing = true;
  return 0;
}

static int change(struct store *s, sqlite3_stmt *statement)
{
  int rc = sqlite3_step(statement);
  sqlite3_reset(statement);
  return rc == SQLITE_DONE ? 0 : give_up(s, sqlite3_errmsg(s->db));
}

int store_add(struct store *s, uint32_t length, const float *vector, int64_t *id)
{
  int rc = begin(s);
  if (rc < 0)
    return rc;
  sqlite3_bind_int64(s->add, 3, length);
  sqlite3_bind_blob(s->add, 4, vector, (int)(s->dims * sizeof *vector), SQLITE_STATIC);
  rc = change(s, s->add);
  *id = sqlite3_last_insert_rowid(s->db);
  return rc;
}

int store_change(struct store *s, int64_t id, uint32_t length)
{
  int rc = begin(s);
  if (rc < 0)
    return rc;
  sqlite3_bind_int64(s->change, 1, length);
  sqlite3_bind_int64(s->change, 2, id);
  return change(s, s->change);
}

int store_drop_before(struct store *s, int64_t id)
{
  int rc = begin(s);
  if (rc < 0)
    return rc;
  sqlite3_bind_int64(s->drop, 3, id);
  return change(s, s->drop);
}

int store_commit(struct store *s)
{
  if (!s->writing)
    return 0;
  s->writing = false;
  if (sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
    return 0;
  int rc = give_up(s, sqlite3_errmsg(s->db));
  sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  return rc;
}
