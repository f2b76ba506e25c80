/* SPDX-License-Identifier: Apache-2.0 */
/* See block_file.h. */
#include "core/disk/block_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct head {
  char magic[24];
  char identity[LLS_BLOCK_IDENTITY];
  uint64_t record_bytes, n_slots;
};

_Static_assert(sizeof(struct lls_block_entry_on_disk) == 64,
               "entries are in no page twice");

static const char magic[24] = "llmserve cache blocks 1";

/* ---- sums -------------------------------------------------------------------------- */

/* Four sums side by side, since each step of one waits for the step before: 10 GB/s. It
 * detects damage, not forgery: who can write the file can do worse. */
static uint64_t sum_of(uint64_t seed, const void *data, size_t bytes)
{
  uint64_t lane[4] = {seed, ~seed, seed * 3 + 1, seed * 5 + 2}, words[4];
  const unsigned char *at = data;
  for (; bytes >= sizeof words; at += sizeof words, bytes -= sizeof words) {
    memcpy(words, at, sizeof words);
    for (int i = 0; i < 4; i++) {
      lane[i] = (lane[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
      lane[i] ^= lane[i] >> 29;
    }
  }
  memset(words, 0, sizeof words);
  memcpy(words, at, bytes);
  uint64_t sum = bytes;
  for (int i = 0; i < 4; i++) {
    sum = (sum ^ lane[i] ^ words[i] * 7) * UINT64_C(0xbf58476d1ce4e5b9);
    sum ^= sum >> 31;
  }
  return sum;
}

/* The sum of a record depends on its key and write: records are never mistaken. */
static uint64_t record_sum(const struct lls_block_entry_on_disk *e, const void *record,
                           size_t bytes)
{
  return sum_of(e->key.word[0] ^ e->key.word[1] * 3 ^ e->sequence * 5, record, bytes);
}

static uint64_t entry_sum(const struct lls_block_entry_on_disk *e, uint32_t slot)
{
  return sum_of(slot + UINT64_C(1), e,
                offsetof(struct lls_block_entry_on_disk, entry_sum));
}

/* ---- whole reads and writes -------------------------------------------------------- */

static int read_all(const struct lls_block_file *f, int fd, void *to, size_t bytes,
                    off_t at)
{
  for (size_t done = 0; done < bytes;) {
    ssize_t n = f->io.read(fd, (char *)to + done, bytes - done, at + (off_t)done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -ENODATA;
    done += (size_t)n;
  }
  return 0;
}

static int write_all(const struct lls_block_file *f, int fd, const void *from,
                     size_t bytes, off_t at)
{
  for (size_t done = 0; done < bytes;) {
    ssize_t n =
        f->io.write(fd, (const char *)from + done, bytes - done, at + (off_t)done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -ENOSPC;
    done += (size_t)n;
  }
  return 0;
}

/* ---- opening ----------------------------------------------------------------------- */

static size_t pages(size_t bytes)
{
  return (bytes + LLS_BLOCK_PAGE - 1) / LLS_BLOCK_PAGE * LLS_BLOCK_PAGE;
}

static off_t entries_at(void)
{
  return (off_t)pages(sizeof(struct head));
}

static uint64_t fixed_bytes(void)
{
  return (uint64_t)entries_at() + LLS_BLOCK_PAGE; /* entries end in a page */
}

static void lay_out(struct lls_block_file *f, size_t record_bytes, uint32_t n_slots)
{
  f->record_bytes = record_bytes;
  f->slot_bytes = pages(record_bytes);
  f->n_slots = n_slots;
  f->slots_at = entries_at() +
                (off_t)pages((size_t)n_slots * sizeof(struct lls_block_entry_on_disk));
}

uint64_t lls_block_file_bytes(size_t record_bytes, uint32_t n_slots)
{
  return fixed_bytes() +
         n_slots * (pages(record_bytes) + sizeof(struct lls_block_entry_on_disk));
}

int lls_block_file_size(size_t record_bytes, uint64_t bytes, struct lls_block_file *f,
                        struct lls_error *err)
{
  uint64_t fixed = fixed_bytes();
  size_t slot = pages(record_bytes) + sizeof(struct lls_block_entry_on_disk);
  uint64_t n = bytes > fixed ? (bytes - fixed) / slot : 0;
  lay_out(f, record_bytes, n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2);
  return f->n_slots > 0 ? 0
                        : lls_fail(err, -ENOSPC, "a block takes %zu bytes, more than all",
                                   record_bytes);
}

/* Without its head, which is written last, the file is emptied again. */
static int make_empty(const struct lls_block_file *f, const struct head *head)
{
  off_t all = f->slots_at + (off_t)f->n_slots * (off_t)f->slot_bytes;
  if (ftruncate(f->fd, 0) < 0 || ftruncate(f->fd, all) < 0)
    return -errno;
  return write_all(f, f->fd, head, sizeof *head, 0);
}

static void open_data(struct lls_block_file *f, const char *path)
{
  f->data_fd = f->fd;
#ifdef O_DIRECT
  int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
  if (fd >= 0)
    f->data_fd = fd;
#else
  (void)path;
#endif
}

static int take_file(struct lls_block_file *f, const char *path, const struct head *head,
                     bool *emptied)
{
  struct head found;
  f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* prompts are private */
  if (f->fd < 0 || flock(f->fd, LOCK_EX | LOCK_NB) < 0)
    return -errno;
  open_data(f, path);
  if (read_all(f, f->fd, &found, sizeof found, 0) == 0 &&
      memcmp(&found, head, sizeof found) == 0)
    return 0;
  *emptied = true;
  return make_empty(f, head);
}

static void begin(struct lls_block_file *f, const struct lls_block_io *io)
{
  *f = (struct lls_block_file){.io = io != NULL ? *io
                                                : (struct lls_block_io){pread, pwrite},
                               .fd = -1,
                               .data_fd = -1};
}

static struct head head_of(const struct lls_block_file *f,
                           const char identity[LLS_BLOCK_IDENTITY])
{
  struct head head;
  memset(&head, 0, sizeof head); /* heads are compared as bytes */
  memcpy(head.magic, magic, sizeof magic);
  memcpy(head.identity, identity, sizeof head.identity);
  head.record_bytes = f->record_bytes;
  head.n_slots = f->n_slots;
  return head;
}

int lls_block_file_open(const char *path, const char identity[LLS_BLOCK_IDENTITY],
                        size_t record_bytes, uint64_t bytes,
                        const struct lls_block_io *io, struct lls_block_file *out,
                        bool *emptied, struct lls_error *err)
{
  begin(out, io);
  *emptied = false;
  int rc = lls_block_file_size(record_bytes, bytes, out, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "%s", path);
  const struct head head = head_of(out, identity);
  rc = take_file(out, path, &head, emptied);
  if (rc == 0)
    return 0;
  lls_block_file_close(out);
  return lls_fail(err, rc, "%s: %s", path,
                  rc == -EWOULDBLOCK ? "another process has it" : strerror(-rc));
}

/* Compares the head of an open file, and takes the number of slots from it. */
static int check_found(struct lls_block_file *f, const char *path,
                       const char identity[LLS_BLOCK_IDENTITY], size_t record_bytes,
                       struct lls_error *err)
{
  struct head found;
  struct stat st;
  if (read_all(f, f->fd, &found, sizeof found, 0) < 0 || fstat(f->fd, &st) < 0)
    return lls_fail(err, -EINVAL, "%s: cut short", path);
  if (memcmp(found.magic, magic, sizeof magic) != 0 || found.n_slots > UINT32_MAX / 2)
    return lls_fail(err, -EINVAL, "%s: not a file of blocks of this version", path);
  lay_out(f, record_bytes, (uint32_t)found.n_slots);
  const struct head head = head_of(f, identity);
  if (memcmp(&found, &head, sizeof found) != 0)
    return lls_fail(err, -ESTALE, "%s: of another model, device, setting or version",
                    path);
  if (st.st_size < f->slots_at + (off_t)f->n_slots * (off_t)f->slot_bytes)
    return lls_fail(err, -EINVAL, "%s: cut short", path);
  return 0;
}

int lls_block_file_open_found(const char *path, const char identity[LLS_BLOCK_IDENTITY],
                              size_t record_bytes, struct lls_block_file *out,
                              struct lls_error *err)
{
  begin(out, NULL);
  out->fd = open(path, O_RDWR | O_CLOEXEC);
  if (out->fd < 0)
    return lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  open_data(out, path);
  int rc = check_found(out, path, identity, record_bytes, err);
  if (rc < 0)
    lls_block_file_close(out);
  return rc;
}

void lls_block_file_close(struct lls_block_file *f)
{
  if (f->data_fd != f->fd && f->data_fd >= 0)
    close(f->data_fd);
  if (f->fd >= 0)
    close(f->fd);
  f->fd = f->data_fd = -1;
}

/* ---- records ----------------------------------------------------------------------- */

int lls_block_file_entries(const struct lls_block_file *f,
                           struct lls_block_entry_on_disk *out)
{
  int rc = read_all(f, f->fd, out, f->n_slots * sizeof *out, entries_at());
  for (uint32_t i = 0; i < f->n_slots && rc == 0; i++)
    if (out[i].sequence == 0 || out[i].entry_sum != entry_sum(&out[i], i))
      out[i] = (struct lls_block_entry_on_disk){0};
  return rc;
}

static off_t slot_at(const struct lls_block_file *f, uint32_t slot)
{
  return f->slots_at + (off_t)slot * (off_t)f->slot_bytes;
}

/* Some file systems open a file past the page cache, and then refuse to write it so. */
static bool cannot_go_past(struct lls_block_file *f, int rc)
{
  if (rc != -EINVAL || f->data_fd == f->fd)
    return false;
  close(f->data_fd);
  f->data_fd = f->fd;
  return true;
}

int lls_block_file_write(struct lls_block_file *f, uint32_t slot,
                         struct lls_block_entry_on_disk *e, const void *record)
{
  e->sum = record_sum(e, record, f->slot_bytes);
  e->entry_sum = entry_sum(e, slot);
  int rc = write_all(f, f->data_fd, record, f->slot_bytes, slot_at(f, slot));
  if (cannot_go_past(f, rc))
    rc = write_all(f, f->data_fd, record, f->slot_bytes, slot_at(f, slot));
  if (rc < 0)
    return rc;
  return write_all(f, f->fd, e, sizeof *e, entries_at() + (off_t)slot * (off_t)sizeof *e);
}

int lls_block_file_read(struct lls_block_file *f, uint32_t slot,
                        const struct lls_block_entry_on_disk *e, void *record)
{
  int rc = read_all(f, f->data_fd, record, f->slot_bytes, slot_at(f, slot));
  if (cannot_go_past(f, rc))
    rc = read_all(f, f->data_fd, record, f->slot_bytes, slot_at(f, slot));
  if (rc < 0)
    return rc;
  return e->sum == record_sum(e, record, f->slot_bytes) ? 0 : -EBADMSG;
}
