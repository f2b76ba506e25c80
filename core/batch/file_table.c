/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and files; see file_table.h. */
#include "core/batch/file_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "core/batch/store_internal.h"

#define OTHERS_S 86400 /* age of a file without a row that no process is writing */

void lls_file_new_id(char *id, size_t size, const char *prefix, const char *replica)
{
  uint64_t bits[2] = {0};
  if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
    bits[0] = (uint64_t)lls_store_now_ns();
  snprintf(id, size, "%s%s%s%016llx%016llx", prefix, replica,
           replica[0] != '\0' ? "-" : "", (unsigned long long)bits[0],
           (unsigned long long)bits[1]);
}

/* ---- uploads ----------------------------------------------------------------------- */

static void fail_upload(struct lls_upload *upload, int status, const char *what)
{
  upload->status = lls_fail(&upload->error, status, "the file cannot be %s: %s", what,
                            strerror(-status));
}

static void open_upload(struct lls_upload *upload, struct lls_store *store)
{
  char path[PATH_MAX];
  lls_file_new_id(upload->file.id, sizeof upload->file.id, "file-", store->replica);
  lls_store_path(store, "files", upload->file.id, path);
  upload->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (upload->fd < 0)
    fail_upload(upload, -errno, "made");
  else
    DL_APPEND(store->uploads, upload);
}

/* Fails the upload if `length` more bytes would exceed the tenant's quota, in which its
 * files and all its uploads in progress count. */
static void check_quota(struct lls_upload *upload, struct lls_store *store, size_t length)
{
  const struct lls_upload *other;
  int64_t bytes = (int64_t)length;
  if (upload->status != 0 || upload->most_bytes == 0)
    return;
  upload->status = lls_database_run(
      &store->database, lls_row_add_integer, &bytes, &upload->error,
      "SELECT bytes FROM files WHERE tenant = ?", "t", upload->file.tenant);
  DL_FOREACH (store->uploads, other)
    if (strcmp(other->file.tenant, upload->file.tenant) == 0)
      bytes += other->file.bytes;
  if (upload->status == 0 && bytes > upload->most_bytes)
    upload->status =
        lls_fail(&upload->error, -E2BIG,
                 "the files of this client's tenant would take more than %lld bytes: "
                 "delete some, or send a smaller one",
                 (long long)upload->most_bytes);
}

void lls_upload_write(struct lls_upload *upload, struct lls_store *store,
                      const void *data, size_t length)
{
  const char *at = data;
  if (upload->fd < 0 && upload->status == 0)
    open_upload(upload, store);
  check_quota(upload, store, length);
  while (length > 0 && upload->status == 0) {
    ssize_t n = write(upload->fd, at, length);
    if (n < 0 && errno != EINTR)
      fail_upload(upload, -errno, "written");
    n = n > 0 ? n : 0;
    at += n;
    length -= (size_t)n;
    upload->file.bytes += n;
  }
}

static void close_upload(struct lls_upload *upload, struct lls_store *store)
{
  DL_DELETE(store->uploads, upload);
  close(upload->fd);
  upload->fd = -1;
}

/* Flushes the folder, so that it names the new file after a crash. */
static int sync_folder(const struct lls_store *store)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", "", path);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int status = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
  if (fd >= 0)
    close(fd);
  return status;
}

int lls_upload_finish(struct lls_upload *upload, struct lls_store *store)
{
  lls_upload_write(upload, store, NULL, 0); /* creates the file even if it is empty */
  if (upload->status == 0 && (fsync(upload->fd) != 0 || sync_folder(store) != 0))
    fail_upload(upload, -errno, "written");
  upload->file.created_s = (int64_t)time(NULL);
  if (upload->expires_after_s > 0)
    upload->file.expires_s = upload->file.created_s + upload->expires_after_s;
  if (upload->status == 0)
    upload->status = lls_files_add(store, &upload->file, &upload->error);
  /* the row may have been written although the database is lost: then it has its file */
  if (upload->status != 0 && upload->status != LLS_DATABASE_LOST)
    lls_upload_abandon(upload, store);
  else
    close_upload(upload, store);
  return upload->status;
}

static void remove_file(const struct lls_store *store, const char *id)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", id, path);
  unlink(path);
}

void lls_upload_abandon(struct lls_upload *upload, struct lls_store *store)
{
  if (upload->fd < 0)
    return;
  close_upload(upload, store);
  remove_file(store, upload->file.id);
}

/* ---- rows -------------------------------------------------------------------------- */

int lls_files_add(struct lls_store *store, const struct lls_file *file,
                  struct lls_error *err)
{
  return lls_database_run(
      &store->database, NULL, NULL, err,
      "INSERT INTO files (id, tenant, purpose, filename, bytes, "
      "created, expires) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO "
      "NOTHING",
      "ttttiii", file->id, file->tenant, file->purpose, file->name, file->bytes,
      file->created_s, file->expires_s);
}

#define COLUMNS "id, purpose, filename, bytes, created, expires"
/* Hides expired files from clients before the sweep deletes them (background.c) */
#define NOT_EXPIRED "(expires = 0 OR expires > unixepoch())"
#define BATCH_GOES_ON                                                                    \
  "status IN ('validating', 'in_progress', 'finalizing', 'cancelling')"

static void copy(char *out, size_t size, const char *text)
{
  snprintf(out, size, "%s", text != NULL ? text : "");
}

static void read_row(const struct lls_result_row *row, struct lls_file *out)
{
  *out = (struct lls_file){.tenant = ""};
  copy(out->id, sizeof out->id, lls_row_text(row, 0));
  copy(out->purpose, sizeof out->purpose, lls_row_text(row, 1));
  copy(out->name, sizeof out->name, lls_row_text(row, 2));
  out->bytes = lls_row_integer(row, 3);
  out->created_s = lls_row_integer(row, 4);
  out->expires_s = lls_row_integer(row, 5);
}

static int keep_row(void *context, const struct lls_result_row *row)
{
  read_row(row, context);
  return 0;
}

int lls_files_find(struct lls_store *store, const char *tenant, const char *id,
                   struct lls_file *out, struct lls_error *err)
{
  *out = (struct lls_file){0};
  int status = lls_database_run(&store->database, keep_row, out, err,
                                "SELECT " COLUMNS " FROM files WHERE id = ?1 AND (?2 IS "
                                "NULL OR tenant = ?2) AND " NOT_EXPIRED,
                                "tt", id, tenant);
  if (status == 0 && out->id[0] == '\0')
    return lls_fail(err, -ENOENT, "there is no file '%.80s'", id);
  return status;
}

json_t *lls_file_json(const struct lls_file *file)
{
  json_t *expires = file->expires_s > 0 ? json_integer(file->expires_s) : json_null();
  return json_pack("{s:s, s:s, s:I, s:I, s:o, s:s, s:s, s:s}", "id", file->id, "object",
                   "file", "bytes", (json_int_t)file->bytes, "created_at",
                   (json_int_t)file->created_s, "expires_at", expires, "filename",
                   file->name, "purpose", file->purpose, "status", "processed");
}

static int list_row(void *context, const struct lls_result_row *row)
{
  struct lls_file file;
  read_row(row, &file);
  return json_array_append_new(context, lls_file_json(&file)) == 0 ? 0 : -ENOMEM;
}

json_t *lls_files_list(struct lls_store *store, const struct lls_files_query *query,
                       int *status, struct lls_error *err)
{
  static const char newest[] =
      "SELECT " COLUMNS " FROM files WHERE tenant = ?1 AND " NOT_EXPIRED
      " AND (?2 IS NULL OR purpose = ?2) "
      "AND (?3 IS NULL OR seq < (SELECT seq FROM files WHERE id = ?3)) ORDER BY seq DESC "
      "LIMIT ?4";
  static const char oldest[] =
      "SELECT " COLUMNS " FROM files WHERE tenant = ?1 AND " NOT_EXPIRED
      " AND (?2 IS NULL OR purpose = ?2) "
      "AND (?3 IS NULL OR seq > (SELECT seq FROM files WHERE id = ?3)) ORDER BY seq "
      "LIMIT ?4";
  json_t *data = json_array();
  *status = lls_database_run(&store->database, list_row, data, err,
                             query->oldest_first ? oldest : newest, "ttti", query->tenant,
                             query->purpose, query->after, query->limit + 1);
  if (*status == 0)
    return data;
  json_decref(data);
  return NULL;
}

static int keep_name(void *context, const struct lls_result_row *row)
{
  copy(context, LLS_FILE_ID_BYTES + 8, lls_row_text(row, 0));
  return 0;
}

int lls_files_delete(struct lls_store *store, const char *tenant, const char *id,
                     struct lls_error *err)
{
  struct lls_file file;
  char user[LLS_FILE_ID_BYTES + 8] = "";
  int status = lls_files_find(store, tenant, id, &file, err);
  if (status == 0)
    status = lls_database_run(
        &store->database, keep_name, user, err,
        "SELECT id FROM batches WHERE input = ? AND " BATCH_GOES_ON " LIMIT 1", "t", id);
  if (status == 0 && user[0] != '\0')
    return lls_fail(err, -EBUSY,
                    "%s is the input of %s, which is not over: cancel it first", id,
                    user);
  if (status == 0)
    status = lls_database_run(&store->database, NULL, NULL, err,
                              "DELETE FROM files WHERE id = ?", "t", id);
  if (status == 0)
    remove_file(store, id);
  return status;
}

int64_t lls_files_read(struct lls_store *store, const char *id, int64_t offset,
                       void *data, size_t size)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", id, path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = pread(fd, data, size, offset);
  int64_t status = n >= 0 ? n : -errno;
  close(fd);
  return status;
}

/* ---- expiry ------------------------------------------------------------------------ */

static int remove_row_file(void *context, const struct lls_result_row *row)
{
  remove_file(context, lls_row_text(row, 0));
  return 0;
}

/* Deletes the row before the file: after a crash between the two, the file has no row
 * and the next start deletes it. */
int lls_files_expire(struct lls_store *store, int64_t now_s, struct lls_error *err)
{
  return lls_database_run(&store->database, remove_row_file, store, err,
                          "DELETE FROM files WHERE expires > 0 AND expires <= ? AND id "
                          "NOT IN (SELECT input FROM batches WHERE " BATCH_GOES_ON
                          ") RETURNING id",
                          "i", now_s);
}

/* ---- the start --------------------------------------------------------------------- */

static int note(void *context, const struct lls_result_row *row)
{
  (void)row;
  *(bool *)context = true;
  return 0;
}

/* True for a file that another process may be writing: its row comes last. */
static bool may_be_another_s(const struct lls_store *store, const char *name)
{
  char path[PATH_MAX];
  struct stat st;
  if (store->id[0] == '\0')
    return false;
  lls_store_path(store, "files", name, path);
  return stat(path, &st) < 0 || st.st_mtime > time(NULL) - OTHERS_S;
}

int lls_files_forget_unknown(struct lls_store *store, struct lls_error *err)
{
  char path[PATH_MAX];
  struct dirent *entry;
  int status = 0;
  lls_store_path(store, "files", "", path);
  DIR *folder = opendir(path);
  if (folder == NULL)
    return lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  while (status == 0 && (entry = readdir(folder)) != NULL) {
    bool known = entry->d_name[0] == '.' || may_be_another_s(store, entry->d_name);
    if (known)
      continue;
    status = lls_database_run(&store->database, note, &known, err,
                              "SELECT 1 FROM files WHERE id = ?1 UNION SELECT 1 FROM "
                              "batches WHERE output = ?1 OR error = ?1",
                              "t", entry->d_name);
    if (status == 0 && !known)
      remove_file(store, entry->d_name);
  }
  closedir(folder);
  return status;
}
