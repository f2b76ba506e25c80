/* SPDX-License-Identifier: Apache-2.0 */
/* See image.h. */
#include "core/plugin/image.h"

#include "core/base/sha256.h"
#include "core/plugin/elf.h"
#include "core/plugin/trial.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
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

static int open_file(const char *path, int *out, struct stat *st, struct lls_error *err)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
  int rc = fstat(fd, st) < 0 ? -errno : 0;
  if (rc < 0)
    lls_fail(err, rc, "%s: cannot read its properties: %s", path, strerror(-rc));
  else if (!S_ISREG(st->st_mode))
    rc = lls_fail(err, -EINVAL, "%s: expected a shared object, found no regular file",
                  path);
  if (rc < 0)
    close(fd);
  else
    *out = fd;
  return rc;
}

/* The copy's name appears in /proc/PID/maps, and so in a debugger. */
static int copy_file(const char *path, int from, int *out, struct lls_error *err)
{
  const char *slash = strrchr(path, '/');
  int to = memfd_create(slash != NULL ? slash + 1 : path, MFD_CLOEXEC);
  int rc = to < 0 ? -errno : copy_all(from, to);
  if (rc == 0) {
    *out = to;
    return 0;
  }
  if (to >= 0)
    close(to);
  return lls_fail(err, rc, "%s: cannot copy into memory: %s", path, strerror(-rc));
}

/* ---- completeness ------------------------------------------------------------------ */

static bool is_same_file(int a, int b)
{
  char of_a[65536], of_b[sizeof of_a];
  for (off_t at = 0;; at += (off_t)sizeof of_a) {
    ssize_t n = pread(a, of_a, sizeof of_a, at);
    if (n < 0 || pread(b, of_b, sizeof of_b, at) != n ||
        memcmp(of_a, of_b, (size_t)n) != 0)
      return false;
    if ((size_t)n < sizeof of_a)
      return true;
  }
}

/* Compares the bytes as well: writing through a mapping does not always change the
 * times. */
static bool has_changed(int from, const struct stat *before, int copy)
{
  struct stat now;
  return fstat(from, &now) < 0 || now.st_size != before->st_size ||
         now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != before->st_mtim.tv_nsec || !is_same_file(from, copy);
}

/* Returns the file's fault, or NULL. *padded: pages of its code are empty, as in a file
 * that is being written. */
static const char *elf_fault(int fd, bool *padded)
{
  struct stat st;
  if (fstat(fd, &st) < 0 || st.st_size == 0)
    return NULL; /* the dynamic linker reports this */
  void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED)
    return NULL;
  const char *fault = lls_elf_fault(bytes, (size_t)st.st_size, padded);
  munmap(bytes, (size_t)st.st_size);
  return fault;
}

/* Refuses files that would crash the dynamic linker. */
static int check_copy(const char *path, int from, const struct stat *before, int copy,
                      enum lls_image_care care, struct lls_error *err)
{
  char died[128] = "";
  bool padded = false;
  const char *fault = elf_fault(copy, &padded);
  if (fault == NULL && care == LLS_IMAGE_TRIED && lls_trial(copy, died) < 0)
    fault = died;
  if (fault == NULL && padded) /* a linker at work writes something within this time */
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  if (fault == NULL && has_changed(from, before, copy))
    fault = "the file is changing";
  if (fault == NULL)
    return 0;
  return lls_fail(err, -ENOEXEC, "%s: cannot load: %s: is it still being written?", path,
                  fault);
}

/* ---- opening ----------------------------------------------------------------------- */

/* Returns dlerror's sentence without the copy's name, which means nothing to users. */
static const char *reason(const char *copy)
{
  const char *text = dlerror();
  size_t length = strlen(copy);
  if (strncmp(text, copy, length) == 0 && strncmp(text + length, ": ", 2) == 0)
    return text + length + 2;
  return text;
}

/* Opens the copy by a name that other processes can open, too, such as a sanitizer's
 * symboliser. */
static int load_copy(const char *path, struct lls_image *out, struct lls_error *err)
{
  char copy[48];
  snprintf(copy, sizeof copy, "/proc/%ld/fd/%d", (long)getpid(), out->fd);
  out->handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
  return out->handle != NULL
             ? 0
             : lls_fail(err, -ENOEXEC, "%s: cannot load: %s", path, reason(copy));
}

static int check_digest(const char *path, int copy, const char *wanted,
                        struct lls_error *err)
{
  struct lls_sha256 h;
  char buffer[65536], found[LLS_SHA256_HEX];
  ssize_t n;
  off_t at = 0;
  if (strspn(wanted, "0123456789abcdefABCDEF") != LLS_SHA256_HEX - 1 ||
      strlen(wanted) != LLS_SHA256_HEX - 1)
    return lls_fail(err, -EINVAL,
                    "%s: pinned by '%s': expected the %d hexadecimal digits that "
                    "sha256sum prints",
                    path, wanted, LLS_SHA256_HEX - 1);
  lls_sha256_begin(&h);
  for (; (n = pread(copy, buffer, sizeof buffer, at)) > 0; at += n)
    lls_sha256_add(&h, buffer, (size_t)n);
  if (n < 0)
    return lls_fail(err, -errno, "%s: cannot read: %s", path, strerror(errno));
  lls_sha256_end(&h, found);
  return strcasecmp(found, wanted) == 0
             ? 0
             : lls_fail(err, -EACCES,
                        "%s: its SHA-256 is %s, but [plugins] pins another: it is a "
                        "different file, or was rebuilt",
                        path, found);
}

int lls_image_open(const char *path, enum lls_image_care care, const char *sha256,
                   struct lls_image *out, struct lls_error *err)
{
  struct stat before;
  int from = -1;
  int rc = open_file(path, &from, &before, err);
  if (rc < 0)
    return rc;
  rc = copy_file(path, from, &out->fd, err);
  if (rc == 0) {
    if (sha256[0] != '\0') /* before any code of it runs */
      rc = check_digest(path, out->fd, sha256, err);
    if (rc == 0)
      rc = check_copy(path, from, &before, out->fd, care, err);
    if (rc == 0)
      rc = load_copy(path, out, err);
    if (rc < 0)
      close(out->fd);
  }
  close(from);
  return rc;
}

bool lls_image_equal(const struct lls_image *a, const struct lls_image *b)
{
  return is_same_file(a->fd, b->fd);
}

void lls_image_close(struct lls_image *image)
{
  dlclose(image->handle);
  close(image->fd);
}
