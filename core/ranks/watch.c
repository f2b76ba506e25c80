/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for other processes to end; see watch.h. */
#include "core/ranks/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define END_MS 2000 /* time for processes that know of the failure to end */

struct lls_ranks_watch {
  struct lls_ranks_failure *failure;
  pthread_t thread;
  uint32_t size;
  struct pollfd fds[LLS_MAX_RANKS + 1]; /* (size) by rank, -1 = not watched; then stop */
  pid_t pids[LLS_MAX_RANKS];
};

static void *watch(void *argument)
{
  struct lls_ranks_watch *w = argument;
  for (;;) {
    if (poll(w->fds, w->size + 1, -1) < 0 && errno != EINTR)
      return NULL;
    if (w->fds[w->size].revents != 0)
      return NULL;
    for (uint32_t rank = 0; rank < w->size; rank++)
      if (w->fds[rank].fd >= 0 && w->fds[rank].revents != 0) {
        lls_ranks_failure_set(w->failure, "rank %u (process %d) has died", rank,
                              (int)w->pids[rank]);
        return NULL;
      }
  }
}

static void close_all(struct lls_ranks_watch *w)
{
  for (uint32_t i = 0; i <= w->size; i++)
    if (w->fds[i].fd >= 0)
      close(w->fds[i].fd);
  free(w);
}

int lls_ranks_watch_start(const pid_t *pids, uint32_t size, struct lls_ranks_failure *f,
                          struct lls_ranks_watch **out)
{
  struct lls_ranks_watch *w = calloc(1, sizeof *w);
  if (w == NULL)
    return -ENOMEM;
  w->failure = f;
  w->size = size;
  for (uint32_t rank = 0; rank < size; rank++) {
    w->pids[rank] = pids[rank];
    /* without pidfds in the kernel: treated like another machine */
    w->fds[rank].fd = pids[rank] > 0 ? (int)syscall(SYS_pidfd_open, pids[rank], 0) : -1;
    w->fds[rank].events = POLLIN;
  }
  w->fds[size] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
  int rc = w->fds[size].fd < 0 ? -errno : -pthread_create(&w->thread, NULL, watch, w);
  if (rc < 0) {
    close_all(w);
    return rc;
  }
  pthread_setname_np(w->thread, "llmserve-watch");
  *out = w;
  return 0;
}

static bool has_ended(struct pollfd *fd, int within_ms)
{
  return fd->fd < 0 || poll(fd, 1, within_ms) != 0;
}

static void end_hung(struct lls_ranks_watch *w)
{
  int left_ms = END_MS;
  for (uint32_t rank = 0; rank < w->size; rank++) {
    struct pollfd *fd = &w->fds[rank];
    for (; left_ms > 0 && !has_ended(fd, 10); left_ms -= 10)
      continue;
    if (!has_ended(fd, 0))
      syscall(SYS_pidfd_send_signal, fd->fd, SIGKILL, NULL, 0);
  }
}

void lls_ranks_watch_stop(struct lls_ranks_watch *w, bool hung)
{
  if (w == NULL)
    return;
  eventfd_write(w->fds[w->size].fd, 1);
  pthread_join(w->thread, NULL);
  if (hung)
    end_hung(w);
  close_all(w);
}
