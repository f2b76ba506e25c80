/* SPDX-License-Identifier: Apache-2.0 */
/* See persistent_file.h. */
#include "core/record/persistent_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file.h"

struct head {
  char magic[24];
  struct lls_persistent_shape shape;
  uint32_t n, unused;
};

static const char magic[24] = "llmserve kept prompts 5";

struct link {
  uint32_t parent, group;
  struct lls_key key;
};

static uint64_t largest_block(const struct lls_persistent_shape *s)
{
  uint64_t most = 0;
  for (uint32_t i = 0; i < LLS_MAX_GROUPS; i++)
    most = s->block_bytes[i] > most ? s->block_bytes[i] : most;
  return most;
}

size_t lls_persistent_that_fit(const struct lls_persistent_shape *s,
                               const struct lls_kept_block *blocks, size_t n,
                               uint64_t bytes)
{
  size_t i = 0;
  for (uint64_t all = 0; i < n; i++) {
    all += sizeof(struct link) + s->block_bytes[blocks[i].group];
    if (all > bytes)
      break;
  }
  return i;
}

/* Detects a damaged file, not a forged one: a user who can write the state folder can
 * do worse. */
static uint64_t add_to_sum(uint64_t sum, const void *data, size_t bytes)
{
  const unsigned char *at = data;
  for (uint64_t word = 0; bytes > 0; word = 0) {
    size_t n = bytes < sizeof word ? bytes : sizeof word;
    memcpy(&word, at, n);
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    sum ^= sum >> 29;
    at += n;
    bytes -= n;
  }
  return sum;
}

/* ---- reading ----------------------------------------------------------------------- */

static int broken(const char *path, const char *how, struct lls_error *err)
{
  return lls_fail(err, -EINVAL, "%s: %s", path, how);
}

/* The links follow the head. */
static const struct link *link_at(const struct lls_persistent_file *f, uint32_t i)
{
  return (const struct link *)(const void *)(f->map + sizeof(struct head)) + i;
}

/* Returns the bytes that the blocks take, or 0 if one is of no group. */
static uint64_t contents_bytes(const struct lls_persistent_file *f,
                               const struct lls_persistent_shape *s)
{
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    uint32_t group = link_at(f, i)->group;
    if (group >= LLS_MAX_GROUPS || s->block_bytes[group] == 0)
      return 0;
    bytes += s->block_bytes[group];
  }
  return bytes;
}

static uint64_t sum_of(const struct lls_persistent_file *f,
                       const struct lls_persistent_shape *s)
{
  const unsigned char *at = f->map + sizeof(struct head);
  uint64_t sum = add_to_sum(0, f->map, sizeof(struct head));
  for (uint32_t i = 0; i < f->n; i++, at += sizeof(struct link))
    sum = add_to_sum(sum, at, sizeof(struct link));
  for (uint32_t i = 0; i < f->n; i++) {
    uint64_t bytes = s->block_bytes[link_at(f, i)->group];
    sum = add_to_sum(sum, at, bytes);
    at += bytes;
  }
  return sum;
}

static int check(const char *path, struct lls_persistent_file *f,
                 const struct lls_persistent_shape *s, struct lls_error *err)
{
  struct head head;
  uint64_t sum;
  if (f->bytes < sizeof head + sizeof sum)
    return broken(path, "cut short", err);
  memcpy(&head, f->map, sizeof head);
  if (memcmp(head.magic, magic, sizeof magic) != 0)
    return broken(path, "not a file of kept prompts of this version", err);
  if (memcmp(&head.shape, s, sizeof *s) != 0)
    return lls_fail(err, -ESTALE, "%s: of another model, device, setting or version",
                    path);
  uint64_t room = f->bytes - sizeof head - sizeof sum;
  uint64_t links = head.n * (uint64_t)sizeof(struct link);
  if (links > room)
    return broken(path, "cut short", err);
  f->n = head.n;
  if (contents_bytes(f, s) != room - links)
    return broken(path, "cut short", err);
  memcpy(&sum, f->map + f->bytes - sizeof sum, sizeof sum);
  return sum == sum_of(f, s) ? 0 : broken(path, "damaged: its sum is another", err);
}

static int list_blocks(struct lls_persistent_file *f,
                       const struct lls_persistent_shape *s, struct lls_error *err)
{
  const unsigned char *at = f->map + sizeof(struct head);
  f->blocks = calloc((size_t)f->n + 1, sizeof *f->blocks);
  if (f->blocks == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < f->n; i++, at += sizeof(struct link)) {
    const struct link *link = (const struct link *)at;
    f->blocks[i] = (struct lls_kept_block){.parent = link->parent,
                                           .group = link->group,
                                           .form = s->block_form[link->group],
                                           .key = link->key};
  }
  f->contents = at;
  return 0;
}

int lls_persistent_file_open(const char *path, const struct lls_persistent_shape *shape,
                             struct lls_persistent_file *out, struct lls_error *err)
{
  *out = (struct lls_persistent_file){0};
  int rc = lls_file_map(path, &out->map, &out->bytes, err);
  if (rc == 0)
    rc = check(path, out, shape, err);
  if (rc == 0)
    rc = list_blocks(out, shape, err);
  if (rc < 0)
    lls_persistent_file_close(out);
  return rc;
}

void lls_persistent_file_close(struct lls_persistent_file *f)
{
  free(f->blocks);
  if (f->map != NULL)
    munmap(f->map, f->bytes);
  *f = (struct lls_persistent_file){0};
}

/* ---- writing ----------------------------------------------------------------------- */

struct writer {
  FILE *file;
  uint64_t sum;
};

static void put(struct writer *w, const void *data, size_t bytes)
{
  w->sum = add_to_sum(w->sum, data, bytes);
  fwrite(data, 1, bytes, w->file);
}

static int put_all(struct writer *w, const struct lls_persistent_shape *s,
                   const struct lls_kept_block *blocks, uint32_t n,
                   int (*read)(void *, uint32_t, uint32_t, void *), void *context,
                   unsigned char *room)
{
  struct head head = {.shape = *s, .n = n};
  int rc = 0;
  memcpy(head.magic, magic, sizeof magic);
  put(w, &head, sizeof head);
  for (uint32_t i = 0; i < n; i++) {
    struct link link = {
        .parent = blocks[i].parent, .group = blocks[i].group, .key = blocks[i].key};
    put(w, &link, sizeof link);
  }
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    rc = read(context, blocks[i].group, blocks[i].unit, room);
    put(w, room, s->block_bytes[blocks[i].group]);
  }
  fwrite(&w->sum, sizeof w->sum, 1, w->file);
  return rc < 0 ? rc : ferror(w->file) ? -EIO : 0;
}

/* Prompts are private: only this user may read the file. */
static FILE *create(const char *path)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return fd >= 0 ? fdopen(fd, "w") : NULL;
}

int lls_persistent_file_write(const char *path, const struct lls_persistent_shape *shape,
                              const struct lls_kept_block *blocks, uint32_t n,
                              int (*read)(void *context, uint32_t group, uint32_t block,
                                          void *to),
                              void *context, struct lls_error *err)
{
  char new[PATH_MAX];
  if (snprintf(new, sizeof new, "%s.new", path) >= (int)sizeof new)
    return lls_fail(err, -ENAMETOOLONG, "%s: too long for a path", path);
  struct writer w = {.file = create(new)};
  if (w.file == NULL)
    return lls_fail(err, -errno, "%s: cannot write: %s", new, strerror(errno));
  unsigned char *room = malloc((size_t)largest_block(shape));
  int rc = room != NULL ? put_all(&w, shape, blocks, n, read, context, room) : -ENOMEM;
  free(room);
  if (fclose(w.file) != 0 && rc == 0)
    rc = -errno;
  if (rc == 0 && rename(new, path) < 0)
    rc = -errno;
  if (rc == 0)
    return 0;
  remove(new);
  return lls_fail(err, rc, "%s: cannot write: %s", path, strerror(-rc));
}
