/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int check(const char *path, size_t most, const struct stat *st,
                 struct lls_error *err)
{
  if (S_ISDIR(st->st_mode))
    return lls_fail(err, -EINVAL, "%s: a folder; expected a file", path);
  if (!S_ISREG(st->st_mode))
    return lls_fail(err, -EINVAL, "%s: a %s; expected a file, which can be read again",
                    path, S_ISFIFO(st->st_mode) ? "pipe" : "device");
  if (most > 0 && (size_t)st->st_size > most)
    return lls_fail(err, -EINVAL, "%s: %lld bytes; at most %zu are read", path,
                    (long long)st->st_size, most);
  return 0;
}

/* Opens without waiting for a pipe's writer. A file on which another process holds a
 * lease, as file servers do, is opened when the lease is given up. */
static int open_now_or_leased(const char *path)
{
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  int fd = open(path, flags | O_NONBLOCK);
  return fd < 0 && errno == EWOULDBLOCK ? open(path, flags) : fd;
}

int lls_file_open(const char *path, size_t most, FILE **out, struct lls_error *err)
{
  struct stat st;
  int fd = open_now_or_leased(path);
  if (fd < 0)
    return lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
  int rc = fstat(fd, &st) == 0 ? check(path, most, &st, err)
                               : lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  *out = rc == 0 ? fdopen(fd, "r") : NULL;
  if (rc == 0 && *out == NULL)
    rc = lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  if (rc < 0)
    close(fd);
  return rc;
}

int lls_file_map(const char *path, unsigned char **map, size_t *bytes,
                 struct lls_error *err)
{
  struct stat st;
  int fd = open_now_or_leased(path);
  if (fd < 0)
    return lls_fail(err, -errno, "%s: cannot be opened: %s", path, strerror(errno));
  int rc = 0;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
    rc = lls_fail(err, -EINVAL, "%s: empty, or no file", path);
    goto out;
  }
  void *mapped = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) {
    rc = lls_fail(err, -errno, "%s: cannot be mapped: %s", path, strerror(errno));
    goto out;
  }
  *map = mapped;
  *bytes = (size_t)st.st_size;
out:
  close(fd);
  return rc;
}

int lls_file_lock(const char *path)
{
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0)
    return fd;
  int rc = -errno;
  close(fd);
  return rc;
}

static void name_of(const char *path, unsigned number, char name[PATH_MAX])
{
  snprintf(name, PATH_MAX, number > 0 ? "%s.%u" : "%s", path, number);
}

int lls_file_rotate(const char *path, unsigned kept)
{
  struct stat st;
  char from[PATH_MAX], to[PATH_MAX];
  if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
    return 0;
  for (unsigned i = kept; i > 0; i--) {
    name_of(path, i - 1, from);
    name_of(path, i, to);
    if (rename(from, to) < 0 && errno != ENOENT)
      return -errno;
  }
  return 0;
}

int lls_file_kept_folder(char *path, size_t size)
{
  const char *cache = getenv("XDG_CACHE_HOME"), *state = getenv("STATE_DIRECTORY");
  const char *home = getenv("HOME");
  const char *below = "";
  if (cache == NULL || cache[0] == '\0')
    cache = state;
  if (cache == NULL || cache[0] == '\0') {
    cache = home != NULL ? home : "/tmp";
    below = home != NULL ? "/.cache" : "";
  }
  int length = snprintf(path, size, "%.*s%s", (int)strcspn(cache, ":"), cache, below);
  if (length < 0 || (size_t)length + sizeof "/llmserve" > size)
    return -ENAMETOOLONG;
  mkdir(path, 0777);
  strcat(path, "/llmserve");
  mkdir(path, 0777); /* on failure, opening a file in the folder fails and reports it */
  return 0;
}
