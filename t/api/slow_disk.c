/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: pread returns only once the file that the environment variable
 * SLOW_DISK names does not exist. A test thus decides when the disk answers.
 */
#undef _FORTIFY_SOURCE /* its pread is inline */

#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

ssize_t pread64(int fd, void *bytes, size_t n, off_t at);

static ssize_t slow_read(int fd, void *bytes, size_t n, off_t at)
{
  const struct timespec pause = {.tv_nsec = 1000000};
  const char *path = getenv("SLOW_DISK");
  while (path != NULL && access(path, F_OK) == 0)
    nanosleep(&pause, NULL);
  return syscall(SYS_pread64, fd, bytes, n, at);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
  return slow_read(fd, bytes, n, at);
}

ssize_t pread64(int fd, void *bytes, size_t n, off_t at)
{
  return slow_read(fd, bytes, n, at);
}
