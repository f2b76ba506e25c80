/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process that answers lines on its standard input with lines on its standard
 * output. Both are one socket, so that a child that has ended gives EPIPE and no signal.
 */
#ifndef LLS_PIPE_CHILD_H
#define LLS_PIPE_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
  pid_t pid; /* 0: none runs */
  int fd;
  char *text; /* (size) `used` bytes of the child's output, `taken` of them returned */
  size_t size, used, taken;
};

/* Starts a command of the shell; standard error stays that of this process. Returns 0 or
 * -errno. */
int child_start(struct child *, const char *command);

/* Writes n bytes. Waits at most timeout_ns each time that the child reads nothing.
 * Returns 0, -ETIMEDOUT or -errno. */
int child_write(struct child *, const char *text, size_t n, int64_t timeout_ns);

/* Stores the child's next line, without its end, in *line: valid until the next call.
 * Returns 0; -ETIMEDOUT if nothing comes for timeout_ns; -EPIPE if the child has closed
 * its output; -EMSGSIZE for a line over 1 MiB. */
int child_read(struct child *, char **line, int64_t timeout_ns);

/* Closes the socket and kills what still runs a second later. Writes how the child ended
 * into how, a string of at most n bytes. */
void child_end(struct child *, char *how, size_t n);

#endif
