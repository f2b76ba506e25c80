/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_blob.h. */
#include "core/hub/hub_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hub/git_blob.h"

#define LOCK_WAIT_MS 500
#define READ_BYTES   (256u << 10)

/* A blob on its way. */
struct arriving {
  struct lls_hub_client *client;
  const struct lls_hub_listed *file;
  int fd;
  uint64_t n; /* bytes in the file, and in the hash */
  struct lls_sha256 sha256;
  struct lls_git_blob git;
};

/* ---- paths ------------------------------------------------------------------------- */

static int blob_path(const struct lls_hub_client *c, const struct lls_hub_listed *f,
                     const char *suffix, char path[PATH_MAX])
{
  char folder[PATH_MAX];
  lls_hub_folder(c->places, c->name, folder);
  return snprintf(path, PATH_MAX, "%s/blobs/%s%s", folder, f->hash, suffix) < PATH_MAX
             ? 0
             : -ENAMETOOLONG;
}

int lls_hub_make_folders(const char *path)
{
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
      return -errno;
    *slash = '/';
  }
  return 0;
}

bool lls_hub_blob_exists(const struct lls_hub_client *c, const struct lls_hub_listed *f)
{
  char path[PATH_MAX];
  struct stat st;
  return blob_path(c, f, "", path) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
         (uint64_t)st.st_size == f->size;
}

uint64_t lls_hub_blob_left(const struct lls_hub_client *c, const struct lls_hub_listed *f)
{
  char path[PATH_MAX];
  struct stat st;
  bool begun = blob_path(c, f, ".incomplete", path) == 0 && stat(path, &st) == 0 &&
               (uint64_t)st.st_size <= f->size;
  return begun ? f->size - (uint64_t)st.st_size : f->size;
}

/* ---- the lock ---------------------------------------------------------------------- */

/* Returns a descriptor that holds the lock, or a negative errno. */
static int take_lock(struct lls_hub_client *c, const struct lls_hub_listed *f,
                     struct lls_error *err)
{
  char folder[PATH_MAX], path[PATH_MAX];
  struct lls_error text;
  bool told = false;
  lls_hub_locks(c->places, c->name, folder);
  if (snprintf(path, sizeof path, "%s/%s.lock", folder, f->hash) >= (int)sizeof path)
    return lls_fail(err, -ENAMETOOLONG, "the path of the hub's cache is too long");
  int rc = lls_hub_make_folders(path);
  int fd = rc == 0 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664) : rc;
  if (fd < 0)
    return lls_fail(err, rc < 0 ? rc : -errno, "%s cannot be created: %s", path,
                    strerror(rc < 0 ? -rc : errno));
  while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
    rc = errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
    if (!told && rc == 0) {
      lls_fail(&text, 0, "another process fetches %s; waiting", f->file.name);
      c->watch->say(c->watch->context, text.text);
      told = true;
    }
    if (rc == 0)
      rc = lls_hub_client_wait(c, LOCK_WAIT_MS);
    if (rc < 0) {
      close(fd);
      return rc == -ECANCELED
                 ? lls_fail(err, rc, "a signal ended it")
                 : lls_fail(err, rc, "%s cannot be locked: %s", path, strerror(-rc));
    }
  }
  return fd;
}

/* ---- bytes ------------------------------------------------------------------------- */

static void begin_hash(struct arriving *a)
{
  a->n = 0;
  lls_sha256_begin(&a->sha256);
  lls_git_blob_begin(&a->git, a->file->size);
}

static void add_to_hash(struct arriving *a, const void *data, size_t n)
{
  if (a->file->is_sha256)
    lls_sha256_add(&a->sha256, data, n);
  else
    lls_git_blob_add(&a->git, data, n);
  a->n += n;
  a->client->done += n;
}

static int take_bytes(void *context, const void *data, size_t n)
{
  struct arriving *a = context;
  const char *from = data;
  if (n > a->file->size - a->n)
    return -EFBIG;
  for (size_t left = n; left > 0;) {
    ssize_t written = write(a->fd, from, left);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return -errno;
    add_to_hash(a, from, (size_t)written);
    from += written;
    left -= (size_t)written;
  }
  return 0;
}

static int restart_file(void *context)
{
  struct arriving *a = context;
  a->client->done -= a->n;
  begin_hash(a);
  return ftruncate(a->fd, 0) == 0 && lseek(a->fd, 0, SEEK_SET) == 0 ? 0 : -errno;
}

/* Reads what an earlier download has left, so that the hash is that of the whole. */
static int read_begun(struct arriving *a)
{
  struct stat st;
  char *data = malloc(READ_BYTES);
  begin_hash(a);
  int rc = data == NULL ? -ENOMEM : fstat(a->fd, &st) < 0 ? -errno : 0;
  if (rc == 0 && (uint64_t)st.st_size > a->file->size)
    rc = restart_file(a);
  for (ssize_t n = 1; rc == 0 && n > 0;) {
    n = read(a->fd, data, READ_BYTES);
    if (n > 0)
      add_to_hash(a, data, (size_t)n);
    else if (n < 0)
      rc = -errno;
    if (rc == 0)
      rc = lls_hub_client_wait(a->client, 0);
  }
  free(data);
  return rc;
}

/* ---- a file ------------------------------------------------------------------------ */

/* Makes the URL of a file; NULL without memory. Free it. */
static char *make_url(const struct lls_hub_client *c, const char *commit,
                      const char *name)
{
  struct lls_text url = {0};
  lls_text_printf(&url, "%s/%s/%s/resolve/%s", c->places->endpoint, c->name->owner,
                  c->name->name, commit);
  for (const char *part = name; *part != '\0';) {
    size_t length = strcspn(part, "/");
    char *escaped = curl_easy_escape(c->easy, part, (int)length);
    if (escaped == NULL)
      url.failed = true;
    else
      lls_text_printf(&url, "/%s", escaped);
    curl_free(escaped);
    part += length + (part[length] == '/');
  }
  if (!url.failed)
    return url.data;
  lls_text_free(&url);
  return NULL;
}

static int fetch_bytes(struct arriving *a, const char *commit, struct lls_error *err)
{
  char *url = make_url(a->client, commit, a->file->file.name);
  struct lls_hub_request r = {.url = url,
                              .what = a->file->file.name,
                              .from = a->n,
                              .expected = a->file->size,
                              .take = take_bytes,
                              .restart = restart_file,
                              .context = a};
  int rc = url == NULL ? lls_fail(err, -ENOMEM, "no memory") : 0;
  if (rc == 0 && a->n < a->file->size)
    rc = lls_hub_client_get(a->client, &r, err);
  free(url);
  return rc;
}

/* Returns true if the hash is right. */
static bool is_right(struct arriving *a, char hash[LLS_SHA256_HEX])
{
  if (a->file->is_sha256)
    lls_sha256_end(&a->sha256, hash);
  else
    lls_git_blob_end(&a->git, hash);
  return strcmp(hash, a->file->hash) == 0;
}

/* Fetches what is missing and compares the hash. A part that an earlier download left
 * may be what is wrong, so the file is then fetched once more from its beginning. */
static int fetch_right(struct arriving *a, const char *commit, const char *partial,
                       struct lls_error *err)
{
  char hash[LLS_SHA256_HEX];
  bool begun = a->n > 0;
  int rc = fetch_bytes(a, commit, err);
  if (rc < 0 || is_right(a, hash))
    return rc;
  if (begun) {
    rc = restart_file(a);
    if (rc == 0)
      rc = fetch_bytes(a, commit, err);
    if (rc < 0 || is_right(a, hash))
      return rc;
  }
  unlink(partial);
  return lls_fail(
      err, -EBADMSG,
      "%s came damaged: its %s is %.12s..., the hub's list says %.12s...; the "
      "file was deleted",
      a->file->file.name, a->file->is_sha256 ? "SHA-256" : "git hash", hash,
      a->file->hash);
}

/* Fetches under the lock. */
static int fetch_locked(struct lls_hub_client *c, const char *commit,
                        const struct lls_hub_listed *f, struct lls_error *err)
{
  struct arriving a = {.client = c, .file = f};
  char path[PATH_MAX], partial[PATH_MAX];
  int rc = blob_path(c, f, "", path);
  if (rc == 0)
    rc = blob_path(c, f, ".incomplete", partial);
  if (rc == 0)
    rc = lls_hub_make_folders(partial);
  a.fd = rc == 0 ? open(partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
  if (a.fd < 0) {
    rc = rc < 0 ? rc : -errno;
    return lls_fail(err, rc, "%s cannot be written: %s", c->places->cache, strerror(-rc));
  }
  rc = read_begun(&a);
  if (rc < 0)
    lls_fail(err, rc, "%s: %s", partial,
             rc == -ECANCELED ? "a signal ended it" : strerror(-rc));
  else
    rc = fetch_right(&a, commit, partial, err);
  if (rc == 0 && (fdatasync(a.fd) < 0 || rename(partial, path) < 0))
    rc = lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  close(a.fd);
  return rc;
}

int lls_hub_blob_get(struct lls_hub_client *c, const char *commit,
                     const struct lls_hub_listed *f, struct lls_error *err)
{
  if (f->hash[0] == '\0')
    return lls_fail(err, -EPROTO, "%s does not say the hash of %s", c->places->endpoint,
                    f->file.name);
  int lock = take_lock(c, f, err);
  if (lock < 0)
    return lock;
  int rc = 0;
  if (!lls_hub_blob_exists(c, f))
    rc = fetch_locked(c, commit, f, err);
  else
    c->done += f->size; /* another process was first */
  close(lock);
  return rc;
}
