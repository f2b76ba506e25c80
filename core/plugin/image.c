/* SPDX-License-Identifier: Apache-2.0 */
/* See image.h. */
#include "core/plugin/image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_all(int from, int to)
{
  char buffer[65536];
  for (;;) {
    ssize_t n = read(from, buffer, sizeof buffer);
    if (n <= 0)
      return n < 0 ? -errno : 0;
    for (ssize_t done = 0; done < n;) {
      ssize_t written = write(to, buffer + done, (size_t)(n - done));
      if (written < 0)
        return -errno;
      done += written;
    }
  }
}

static int open_file(const char *path, int *out, struct lls_error *err)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return lls_fail(err, -EINVAL, "%s: expected a shared object, found no regular file",
                    path);
  }
  *out = fd;
  return 0;
}

/* The copy's name shows in /proc/PID/maps and so in a debugger. */
static int copy_file(const char *path, int *out, struct lls_error *err)
{
  int from = -1;
  int rc = open_file(path, &from, err);
  if (rc < 0)
    return rc;
  const char *slash = strrchr(path, '/');
  int to = memfd_create(slash != NULL ? slash + 1 : path, MFD_CLOEXEC);
  rc = to < 0 ? -errno : copy_all(from, to);
  close(from);
  if (rc < 0) {
    if (to >= 0)
      close(to);
    return lls_fail(err, rc, "%s: cannot copy into memory: %s", path, strerror(-rc));
  }
  *out = to;
  return 0;
}

/* ---- is it whole? ------------------------------------------------------------------ */

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
  return at < INT64_MAX && pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Is every segment in the file? */
static bool has_segments(int fd, const ElfW(Ehdr) * head, uint64_t file_bytes)
{
  for (uint32_t i = 0; i < head->e_phnum; i++) {
    ElfW(Phdr) segment;
    if (!read_at(fd, &segment, sizeof segment, head->e_phoff + i * sizeof segment))
      return false;
    if (segment.p_type == PT_LOAD && (segment.p_offset > file_bytes ||
                                      segment.p_filesz > file_bytes - segment.p_offset))
      return false;
  }
  return true;
}

/* The dynamic linker believes the headers and dies of SIGBUS where a file ends before
 * them: of a linker still at work, or of a full disk. What is no ELF it refuses itself.
 */
static bool is_whole(int fd)
{
  ElfW(Ehdr) head;
  struct stat st;
  if (fstat(fd, &st) < 0 || !read_at(fd, &head, sizeof head, 0) ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(ElfW(Phdr)))
    return true;
  uint64_t bytes = (uint64_t)st.st_size;
  uint64_t sections = (uint64_t)head.e_shnum * head.e_shentsize; /* come last */
  return head.e_shoff <= bytes && sections <= bytes - head.e_shoff &&
         has_segments(fd, &head, bytes);
}

/* ---- opening ----------------------------------------------------------------------- */

/* dlerror's sentence without the copy's name, which tells nobody anything. */
static const char *reason(const char *copy)
{
  const char *text = dlerror();
  size_t length = strlen(copy);
  if (strncmp(text, copy, length) == 0 && strncmp(text + length, ": ", 2) == 0)
    return text + length + 2;
  return text;
}

int lls_image_open(const char *path, struct lls_image *out, struct lls_error *err)
{
  char copy[32];
  int rc = copy_file(path, &out->fd, err);
  if (rc < 0)
    return rc;
  if (!is_whole(out->fd)) {
    close(out->fd);
    return lls_fail(err, -ENOEXEC,
                    "%s: cannot load: the file ends before its contents: is it still "
                    "being written?",
                    path);
  }
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", out->fd);
  out->handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
  if (out->handle != NULL)
    return 0;
  rc = lls_fail(err, -ENOEXEC, "%s: cannot load: %s", path, reason(copy));
  close(out->fd);
  return rc;
}

bool lls_image_equal(const struct lls_image *a, const struct lls_image *b)
{
  char of_a[4096], of_b[sizeof of_a];
  for (off_t at = 0;; at += (off_t)sizeof of_a) {
    ssize_t n = pread(a->fd, of_a, sizeof of_a, at);
    if (n < 0 || pread(b->fd, of_b, sizeof of_b, at) != n ||
        memcmp(of_a, of_b, (size_t)n) != 0)
      return false;
    if ((size_t)n < sizeof of_a)
      return true;
  }
}

void lls_image_close(struct lls_image *image)
{
  dlclose(image->handle);
  close(image->fd);
}
