/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_fetch.h. refs/main is written last, so that a start without network finds the
 * commit that is complete. */
#include "core/hub/hub_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/hub/hub_blob.h"

#define MIB        (1024.0 * 1024.0)
#define ANSWER_MAX (64u << 20) /* bytes of a list of files */

struct fetch {
  struct lls_hub_client client;
  struct lls_hub_listing listing;
  struct lls_hub_choice choice;
  char folder[PATH_MAX]; /* models--OWNER--NAME */
};

/* ---- snapshots and refs ------------------------------------------------------------ */

/* Writes the path of a file in the snapshot, and the link from there to its blob. */
static int link_of(const struct fetch *f, const struct lls_hub_listed *file,
                   char path[PATH_MAX], struct lls_text *target)
{
  int n = snprintf(path, PATH_MAX, "%s/snapshots/%s/%s", f->folder, f->listing.commit,
                   file->file.name);
  lls_text_puts(target, "../..");
  for (const char *slash = file->file.name; (slash = strchr(slash, '/')) != NULL; slash++)
    lls_text_puts(target, "/..");
  lls_text_printf(target, "/blobs/%s", file->hash);
  return n >= PATH_MAX ? -ENAMETOOLONG : target->failed ? -ENOMEM : 0;
}

/* Returns true if `path` is a link with this text. */
static bool links_to(const char *path, const char *target)
{
  char own[PATH_MAX];
  ssize_t n = readlink(path, own, sizeof own - 1);
  own[n > 0 ? n : 0] = '\0';
  return strcmp(own, target) == 0;
}

/* Puts a file into the snapshot; another process may do the same. */
static int put_link(const struct fetch *f, const struct lls_hub_listed *file,
                    struct lls_error *err)
{
  char path[PATH_MAX];
  struct lls_text target = {0};
  int rc = link_of(f, file, path, &target);
  if (rc == 0)
    rc = lls_hub_make_folders(path);
  for (unsigned i = 0; rc == 0 && i < 2 && !links_to(path, target.data); i++) {
    rc = symlink(target.data, path) < 0 ? -errno : 0;
    if (rc == -EEXIST && i == 0)
      rc = unlink(path) < 0 && errno != ENOENT ? -errno : 0;
  }
  if (rc == -EEXIST && links_to(path, target.data))
    rc = 0;
  lls_text_free(&target);
  return rc < 0 ? lls_fail(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* Makes refs/main say the commit, at once. */
static int put_ref(const struct fetch *f, struct lls_error *err)
{
  char path[PATH_MAX + 16], fresh[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/refs/main", f->folder);
  snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
  int rc = lls_hub_make_folders(path);
  int fd = rc == 0 ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  if (rc == 0 && fd < 0)
    rc = -errno;
  size_t length = strlen(f->listing.commit);
  if (rc == 0 && write(fd, f->listing.commit, length) != (ssize_t)length)
    rc = -EIO;
  if (fd >= 0)
    close(fd);
  if (rc == 0 && rename(fresh, path) < 0)
    rc = -errno;
  return rc < 0 ? lls_fail(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* ---- files ------------------------------------------------------------------------- */

static int get_file(struct fetch *f, const struct lls_hub_listed *file,
                    struct lls_error *err)
{
  int rc = 0;
  if (!lls_hub_blob_exists(&f->client, file))
    rc = lls_hub_blob_get(&f->client, f->listing.commit, file, err);
  return rc == 0 ? put_link(f, file, err) : rc;
}

/* Gets the index of the safetensors, which names the files of weights. */
static int get_index(struct fetch *f, struct lls_error *err)
{
  struct lls_hub_listing *l = &f->listing;
  char path[PATH_MAX + LLS_SHA256_HEX + 16];
  const struct lls_hub_listed *index = l->files;
  while (index->file.name != f->choice.index)
    index++;
  int rc = get_file(f, index, err);
  if (rc < 0)
    return rc;
  snprintf(path, sizeof path, "%s/blobs/%s", f->folder, index->hash);
  rc = lls_hub_choose_weights(l->files, l->n, sizeof *l->files, path, err);
  f->client.done = 0; /* the index is small, and counts in no total */
  return rc;
}

static bool is_missing(const struct fetch *f, const struct lls_hub_listed *file)
{
  return file->file.wanted && !lls_hub_blob_exists(&f->client, file);
}

/* Adds up what is missing, says so, and checks that there is room for it. */
static int announce(struct fetch *f, struct lls_error *err)
{
  struct lls_hub_client *c = &f->client;
  struct statvfs disk;
  struct lls_error text;
  uint64_t left = 0;
  size_t n = 0;
  for (size_t i = 0; i < f->listing.n; i++)
    if (is_missing(f, &f->listing.files[i])) {
      c->total += f->listing.files[i].size;
      left += lls_hub_blob_left(c, &f->listing.files[i]);
      n++;
    }
  if (n == 0)
    return 0;
  if (lls_hub_make_folders(f->folder) == 0 && statvfs(c->places->cache, &disk) == 0 &&
      (uint64_t)disk.f_bavail * disk.f_frsize < left)
    return lls_fail(err, -ENOSPC,
                    "it takes %.0f MiB, and %s has room for %.0f MiB; HF_HOME names "
                    "another place",
                    (double)left / MIB, c->places->cache,
                    (double)disk.f_bavail * (double)disk.f_frsize / MIB);
  lls_fail(&text, 0, "fetching %s/%s%s%s from %s: %zu file%s, %.1f MiB, into %s",
           c->name->owner, c->name->name, f->choice.gguf != NULL ? ", " : "",
           f->choice.gguf != NULL ? f->choice.gguf : "", c->places->endpoint, n,
           n > 1 ? "s" : "", (double)c->total / MIB, c->places->cache);
  c->watch->say(c->watch->context, text.text);
  return 0;
}

/* Asks the hub which files the model has. */
static int get_listing(struct lls_hub_client *c, struct lls_hub_listing *l,
                       struct lls_error *err)
{
  char url[LLS_HUB_ENDPOINT + 2 * LLS_HUB_PART + 64];
  struct lls_text text = {0};
  *l = (struct lls_hub_listing){0};
  snprintf(url, sizeof url, "%s/api/models/%s/%s/revision/main?blobs=true",
           c->places->endpoint, c->name->owner, c->name->name);
  int rc = lls_hub_client_get_text(c, url, ANSWER_MAX, &text, err);
  if (rc == 0) {
    rc = lls_hub_listing_read(text.data, text.length, l);
    if (rc < 0)
      lls_fail(err, rc, "%s: the answer is no list of a model's files", url);
  }
  lls_text_free(&text);
  return rc;
}

static int fetch_files(struct fetch *f, struct lls_error *err)
{
  struct lls_hub_listing *l = &f->listing;
  int rc = lls_hub_choose(l->files, l->n, sizeof *l->files, f->client.name->quant,
                          &f->choice, err);
  if (rc == 0 && f->choice.index != NULL)
    rc = get_index(f, err);
  if (rc == 0)
    rc = announce(f, err);
  for (size_t i = 0; rc == 0 && i < l->n; i++)
    if (l->files[i].file.wanted)
      rc = get_file(f, &l->files[i], err);
  return rc == 0 ? put_ref(f, err) : rc;
}

int lls_hub_fetch(const struct lls_hub_places *places, const struct lls_hub_name *name,
                  const struct lls_hub_watch *watch, int *signal, struct lls_error *err)
{
  struct fetch f = {0};
  *signal = 0;
  lls_hub_folder(places, name, f.folder);
  int rc = lls_hub_client_open(&f.client, places, name, watch, err);
  if (rc < 0)
    return rc;
  rc = get_listing(&f.client, &f.listing, err);
  if (rc == 0)
    rc = fetch_files(&f, err);
  *signal = f.client.caught;
  lls_hub_listing_free(&f.listing);
  lls_hub_client_close(&f.client);
  return rc;
}
