/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a server under test: its clocks jump. The file LLS_JUMP has two numbers
 * of seconds, by which the wall clock and the steady one are ahead; a test changes them
 * while the server runs. The wall clock may go back, the steady one does not.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct ahead {
  _Atomic int64_t wall_s, steady_s;
};

static struct ahead nothing, *ahead = &nothing;

__attribute__((constructor)) static void begin(void)
{
  const char *path = getenv("LLS_JUMP");
  int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0)
    return;
  void *at = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED)
    ahead = at;
  close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  static __typeof__(clock_gettime) *next;
  if (next == NULL)
    next = (__typeof__(clock_gettime) *)dlsym(RTLD_NEXT, "clock_gettime");
  int rc = next(clock, now);
  if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += ahead->wall_s;
  if (rc == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
    now->tv_sec += ahead->steady_s;
  return rc;
}

time_t time(time_t *to)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != NULL)
    *to = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  *to = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
