/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See log_sink.h. How to write without waiting depends on the descriptor. O_NONBLOCK
 * belongs to the open file, which stderr shares with the parent process. A pipe or a
 * terminal is therefore opened again; if that is not allowed, poll tells if a line fits.
 * A regular file never makes a writer wait.
 */
#include "core/obs/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"

enum way { WAY_WRITE, WAY_POLL, WAY_SEND };

struct lls_log_sink {
  pthread_mutex_t mutex; /* protects all fields below */
  int fd;
  bool owned; /* fd was opened here and is closed here */
  enum way way;
  struct lls_text kept; /* lines, each with its length (size_t) before it */
  size_t taken;         /* bytes of the first line that were written */
  uint64_t lost;
};

/* Opens the same pipe or terminal again with file flags of its own; -1 if not
 * permitted. */
static int open_again(int fd)
{
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void choose_way(struct lls_log_sink *sink)
{
  struct stat st;
  if (fstat(sink->fd, &st) != 0 || S_ISREG(st.st_mode))
    return;
  if (S_ISSOCK(st.st_mode)) {
    sink->way = WAY_SEND;
    return;
  }
  int own = open_again(sink->fd);
  sink->owned = own >= 0;
  sink->way = sink->owned ? WAY_WRITE : WAY_POLL;
  sink->fd = sink->owned ? own : sink->fd;
}

struct lls_log_sink *lls_log_sink_create(int fd)
{
  struct lls_log_sink *sink = calloc(1, sizeof *sink);
  if (sink == NULL)
    return NULL;
  pthread_mutex_init(&sink->mutex, NULL);
  sink->fd = fd;
  choose_way(sink);
  return sink;
}

static bool wait_for_room(const struct lls_log_sink *sink, int most_ms)
{
  struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
  return poll(&room, 1, most_ms) > 0;
}

/* Writes without waiting. Returns the bytes written: 0 if the write would wait. After a
 * lasting error the line counts as lost, and all its bytes as written. */
static size_t give(struct lls_log_sink *sink, const char *data, size_t length)
{
  ssize_t n;
  if (sink->way == WAY_POLL && !wait_for_room(sink, 0))
    return 0;
  do
    n = sink->way == WAY_SEND ? send(sink->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : write(sink->fd, data, length);
  while (n < 0 && errno == EINTR);
  if (n >= 0)
    return (size_t)n;
  if (errno == EAGAIN || errno == ENOBUFS)
    return 0;
  sink->lost++;
  return length;
}

static void flush(struct lls_log_sink *sink)
{
  size_t at = 0, length;
  while (at < sink->kept.length) {
    const char *line = sink->kept.data + at + sizeof length;
    memcpy(&length, sink->kept.data + at, sizeof length);
    LLS_CHECK(sink->taken <= length && at + sizeof length + length <= sink->kept.length);
    sink->taken += give(sink, line + sink->taken, length - sink->taken);
    if (sink->taken < length)
      break;
    sink->taken = 0;
    at += sizeof length + length;
  }
  lls_text_consume(&sink->kept, at);
  if (sink->kept.length == 0)
    lls_text_free(&sink->kept);
}

static void keep(struct lls_log_sink *sink, const char *line, size_t length, size_t taken)
{
  bool fits = sink->kept.length + sizeof length + length <= LLS_SINK_BYTES;
  if (!fits || !lls_text_reserve(&sink->kept, sizeof length + length)) {
    sink->lost++;
    return;
  }
  lls_text_append(&sink->kept, &length, sizeof length);
  lls_text_append(&sink->kept, line, length);
  LLS_CHECK(taken == 0 || sink->kept.length == sizeof length + length);
  if (taken > 0)
    sink->taken = taken;
}

void lls_log_sink_put(struct lls_log_sink *sink, const void *line, size_t length)
{
  pthread_mutex_lock(&sink->mutex);
  flush(sink);
  size_t taken = sink->kept.length == 0 ? give(sink, line, length) : 0;
  if (taken < length)
    keep(sink, line, length, taken);
  pthread_mutex_unlock(&sink->mutex);
}

bool lls_log_sink_flush(struct lls_log_sink *sink)
{
  pthread_mutex_lock(&sink->mutex);
  flush(sink);
  bool left = sink->kept.length > 0;
  pthread_mutex_unlock(&sink->mutex);
  return left;
}

uint64_t lls_log_sink_lost(struct lls_log_sink *sink)
{
  uint64_t lost = 0;
  pthread_mutex_lock(&sink->mutex);
  if (sink->kept.length < LLS_SINK_BYTES / 2) {
    lost = sink->lost;
    sink->lost = 0;
  }
  pthread_mutex_unlock(&sink->mutex);
  return lost;
}

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void lls_log_sink_destroy(struct lls_log_sink *sink, int most_ms)
{
  if (sink == NULL)
    return;
  int64_t left, end = now_ms() + most_ms;
  while (lls_log_sink_flush(sink) && (left = end - now_ms()) > 0 &&
         wait_for_room(sink, (int)left))
    ;
  lls_text_free(&sink->kept);
  if (sink->owned)
    close(sink->fd);
  pthread_mutex_destroy(&sink->mutex);
  free(sink);
}
