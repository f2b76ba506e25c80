/* SPDX-License-Identifier: Apache-2.0 */
/* See child.h. */
#include "child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST_LINE = 1 << 20 };

extern char **environ;

/* Starts the command with `theirs` as input and output, in a process group of its own:
 * whatever the shell starts is in it. Signals that this process ignores, as a server does
 * SIGPIPE, have their usual effect there. */
static int spawn(struct child *c, const char *command, int theirs)
{
  char shell[] = "sh", option[] = "-c";
  char *arguments[] = {shell, option, (char *)(uintptr_t)command, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  int rc = posix_spawn_file_actions_adddup2(&files, theirs, STDIN_FILENO);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(&files, theirs, STDOUT_FILENO);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETPGROUP);
  if (rc == 0)
    rc = posix_spawn(&c->pid, "/bin/sh", &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return -rc;
}

int child_start(struct child *c, const char *command)
{
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
    return -errno;
  *c = (struct child){.fd = ends[0]};
  int rc = spawn(c, command, ends[1]);
  close(ends[1]);
  if (rc < 0) {
    close(c->fd);
    *c = (struct child){0};
  }
  return rc;
}

/* Waits until the socket is ready for `events`. */
static int wait_for(const struct child *c, short events, int64_t timeout_ns)
{
  struct pollfd ready = {.fd = c->fd, .events = events};
  int64_t ms = timeout_ns / 1000000;
  int n = poll(&ready, 1, ms < INT32_MAX ? (int)ms : INT32_MAX);
  if (n < 0)
    return errno == EINTR ? 0 : -errno;
  return n > 0 ? 0 : -ETIMEDOUT;
}

int child_write(struct child *c, const char *text, size_t n, int64_t timeout_ns)
{
  while (n > 0) {
    ssize_t sent = send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      text += sent;
      n -= (size_t)sent;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR)
      return -errno;
    int rc = wait_for(c, POLLOUT, timeout_ns);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Drops the returned lines, and makes room behind the other bytes. */
static int make_room(struct child *c)
{
  if (c->taken > 0)
    memmove(c->text, c->text + c->taken, c->used - c->taken);
  c->used -= c->taken;
  c->taken = 0;
  if (c->used < c->size)
    return 0;
  if (c->size >= LONGEST_LINE)
    return -EMSGSIZE;
  size_t size = c->size > 0 ? 2 * c->size : 4096;
  char *more = realloc(c->text, size);
  if (more == NULL)
    return -ENOMEM;
  c->text = more;
  c->size = size;
  return 0;
}

static int receive(struct child *c, int64_t timeout_ns)
{
  int rc = wait_for(c, POLLIN, timeout_ns);
  if (rc < 0)
    return rc;
  ssize_t n = recv(c->fd, c->text + c->used, c->size - c->used, MSG_DONTWAIT);
  if (n < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : errno == ECONNRESET ? -EPIPE : -errno;
  c->used += (size_t)n;
  return n > 0 ? 0 : -EPIPE;
}

int child_read(struct child *c, char **line, int64_t timeout_ns)
{
  size_t seen = 0; /* of the bytes after `taken`: they have no end of a line */
  for (;;) {
    size_t n = c->used - c->taken;
    char *begin = n > 0 ? c->text + c->taken : NULL;
    char *end = n > seen ? memchr(begin + seen, '\n', n - seen) : NULL;
    if (end != NULL) {
      *end = '\0';
      *line = begin;
      c->taken += (size_t)(end - begin) + 1;
      return 0;
    }
    seen = n;
    int rc = make_room(c);
    if (rc == 0)
      rc = receive(c, timeout_ns);
    if (rc < 0)
      return rc;
  }
}

/* Waits a second at most. A child that has read the end of its input needs no time. */
static bool has_ended(const struct child *c, int *status)
{
  for (int i = 0; i < 100; i++) {
    if (waitpid(c->pid, status, WNOHANG) != 0)
      return true;
    poll(NULL, 0, 10);
  }
  return false;
}

void child_end(struct child *c, char *how, size_t n)
{
  int status = 0;
  if (c->pid > 0) {
    close(c->fd);
    bool by_itself = has_ended(c, &status);
    kill(-c->pid, SIGKILL);
    if (!by_itself)
      waitpid(c->pid, &status, 0);
    if (!by_itself)
      snprintf(how, n, "it was killed");
    else if (WIFSIGNALED(status))
      snprintf(how, n, "it was ended by signal %d", WTERMSIG(status));
    else
      snprintf(how, n, "it ended with status %d", WEXITSTATUS(status));
  }
  free(c->text);
  *c = (struct child){0};
}
