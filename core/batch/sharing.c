/* SPDX-License-Identifier: Apache-2.0 */
/* See sharing.h. */
#include "core/batch/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json_parse.h"

#define LEASE   "10" /* seconds */
#define BEAT_MS 3000

static bool is_alone(const struct lls_store *store)
{
  return store->id[0] == '\0';
}

/* ---- the folder of files ----------------------------------------------------------- */

static int keep_id(void *context, const struct lls_result_row *row)
{
  snprintf(context, LLS_PROCESS_ID_BYTES, "%s", lls_row_text(row, 0));
  return 0;
}

/* Writes the mark that says to which database the files belong. */
static int write_mark(const char *path, const char *id, struct lls_error *err)
{
  size_t length = strlen(id);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int status = fd < 0 ? -errno : 0;
  if (status == 0 && (write(fd, id, length) != (ssize_t)length || fsync(fd) != 0))
    status = errno != 0 ? -errno : -EIO;
  if (fd >= 0)
    close(fd);
  return status == 0 ? 0
                     : lls_fail(err, status, "%s: cannot be written: %s", path,
                                strerror(-status));
}

static int check_mark(const struct lls_store *store, const char *path, const char *id,
                      struct lls_error *err)
{
  char found[LLS_PROCESS_ID_BYTES] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, found, sizeof found - 1) : -1;
  if (fd >= 0)
    close(fd);
  if (n > 0 && strncmp(found, id, strlen(id)) == 0)
    return 0;
  return lls_fail(
      err, -EINVAL,
      "%s does not have the files of this database: [server] state_files must "
      "be the folder that all its replicas share (if it is, write %s into %s)",
      store->files, id, path);
}

/* The first process marks its folder; later ones must find the mark. */
static int check_folder(struct lls_store *store, struct lls_error *err)
{
  char path[PATH_MAX], id[LLS_PROCESS_ID_BYTES] = "";
  lls_store_path(store, "files", ".llmserve", path);
  int status = lls_database_run(&store->database, keep_id, id, err,
                                "INSERT INTO folder VALUES (1, ?) ON CONFLICT (one) DO "
                                "NOTHING RETURNING id",
                                "t", store->id);
  if (status == 0 && id[0] != '\0')
    return write_mark(path, id, err);
  if (status == 0)
    status =
        lls_database_run(&store->database, keep_id, id, err, "SELECT id FROM folder", "");
  return status == 0 ? check_mark(store, path, id, err) : status;
}

/* ---- life -------------------------------------------------------------------------- */

int lls_sharing_open(struct lls_store *store, struct lls_error *err)
{
  lls_file_new_id(store->id, sizeof store->id, "", "");
  int status = lls_database_begin(&store->database, err);
  if (status == 0)
    status = lls_database_end(&store->database, check_folder(store, err), err);
  return status == 0 ? lls_sharing_beat(store, err) : status;
}

void lls_sharing_close(struct lls_store *store)
{
  static const char *const ends[] = {"UPDATE batches SET owner = '' WHERE owner = ?",
                                     "DELETE FROM usage WHERE replica = ?",
                                     "DELETE FROM replicas WHERE id = ?"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0] && !is_alone(store); i++)
    lls_database_run(&store->database, NULL, NULL, NULL, ends[i], "t", store->id);
}

int lls_sharing_sweep(struct lls_store *store, struct lls_error *err)
{
  if (is_alone(store))
    return 0;
  store->counted_responses = false; /* other processes store some, too */
  int status =
      lls_database_run(&store->database, NULL, NULL, err,
                       "DELETE FROM replicas WHERE lease < unixepoch() - 3600", "");
  if (status != 0)
    return status;
  return lls_database_run(
      &store->database, NULL, NULL, err,
      "DELETE FROM usage WHERE at < unixepoch() - 3600 OR replica NOT IN (SELECT id FROM "
      "replicas)",
      "");
}

/* ---- the heartbeat ----------------------------------------------------------------- */

/* Marks the batch of a row that is as this process knows it. */
static int mark(void *context, const struct lls_result_row *row)
{
  struct lls_store *store = context;
  const char *status = lls_row_text(row, 1);
  for (uint32_t i = 0; i < store->n_active; i++)
    if (store->active[i]->seq == lls_row_integer(row, 0))
      store->active[i]->mine = strcmp(status, "cancelling") != 0 ||
                               store->active[i]->state == LLS_ACTIVE_CANCELLING;
  return 0;
}

/* A batch whose end was written, but not confirmed since the database was lost, is this
 * process's until it writes that again: so rows of every status are read. */
static int check_batches(struct lls_store *store, struct lls_error *err)
{
  int64_t oldest = INT64_MAX;
  if (store->n_active == 0)
    return 0;
  for (uint32_t i = 0; i < store->n_active; i++) {
    store->active[i]->mine = false;
    if (store->active[i]->seq < oldest)
      oldest = store->active[i]->seq;
  }
  int status =
      lls_database_run(&store->database, mark, store, err,
                       "SELECT seq, status FROM batches WHERE owner = ? AND seq >= ?",
                       "ti", store->id, oldest);
  for (uint32_t i = store->n_active; i > 0 && status == 0; i--)
    if (!store->active[i - 1]->mine)
      status = lls_sharing_refresh(store, store->active[i - 1], err);
  return status < 0 ? status : 0;
}

int lls_sharing_beat(struct lls_store *store, struct lls_error *err)
{
  int64_t now_ns = lls_store_now_ns();
  if (is_alone(store) ||
      (store->beaten_ns != 0 && now_ns - store->beaten_ns < BEAT_MS * LLS_NS_PER_MS))
    return 0;
  int status = lls_database_run(&store->database, NULL, NULL, err,
                                "INSERT INTO replicas VALUES (?, ?, unixepoch() + " LEASE
                                ") ON CONFLICT (id) DO UPDATE SET lease = excluded.lease",
                                "tt", store->id, store->replica);
  if (status == 0)
    status = check_batches(store, err);
  if (status != 0)
    return status;
  store->beaten_ns = now_ns;
  store->admitting = true;
  return 0;
}

int lls_sharing_wait_ms(const struct lls_store *store, int idle_ms)
{
  return is_alone(store) ? idle_ms : BEAT_MS;
}

/* ---- batches ----------------------------------------------------------------------- */

struct fresh {
  bool mine, cancelling;
  json_t *object;
};

static int keep_fresh(void *context, const struct lls_result_row *row)
{
  struct fresh *fresh = context;
  fresh->mine = lls_row_integer(row, 0) != 0;
  fresh->cancelling = strcmp(lls_row_text(row, 1), "cancelling") == 0;
  fresh->object = lls_json_parse_string(lls_row_text(row, 2), JSON_ALLOW_NUL, NULL);
  return fresh->object != NULL ? 0 : -ENOMEM;
}

int lls_sharing_refresh(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err)
{
  struct fresh fresh = {0};
  int status =
      lls_database_run(&store->database, keep_fresh, &fresh, err,
                       "SELECT owner = ?, status, object FROM batches WHERE seq = ?",
                       "ti", store->id, active->seq);
  bool cancelled = fresh.cancelling && active->state != LLS_ACTIVE_CANCELLING;
  if (status == 0 && !fresh.mine) {
    lls_log(store->log, LLS_LOG_INFO, "batch", "%s goes on at another replica",
            active->id);
    lls_active_forget(store, active);
  } else if (status == 0 && cancelled) {
    lls_active_cancel(store, active->id, fresh.object);
    status = 1;
  } else if (status == 0) {
    status = lls_fail(err, -EIO, "%s: its row does not change", active->id);
  }
  json_decref(fresh.object);
  return status;
}
