/* SPDX-License-Identifier: Apache-2.0 */
/* Runs another program of llmserve; see child.h. */
#include "tools/whatif/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID      1024 /* bytes kept of its error output */
#define NOT_RUN   127
#define NICE_MOST 19

/* ---- in the child ----------------------------------------------------------------- */

static void bound(int resource, int64_t most)
{
  const struct rlimit limit = {(rlim_t)most, (rlim_t)most};
  if (most > 0)
    setrlimit(resource, &limit);
}

/* Runs the program beside this one, or else the one in PATH. */
static void run_program(char *const arguments[])
{
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  char *name = strrchr(path, '/');
  if (name != NULL) {
    snprintf(name + 1, sizeof path - (size_t)(name + 1 - path), "%s", arguments[0]);
    execv(path, arguments);
  }
  execvp(arguments[0], arguments);
  dprintf(STDERR_FILENO, "%s is not there: %s\n", arguments[0], strerror(errno));
  _exit(NOT_RUN);
}

static void become(char *const arguments[], const struct child_limits *limits, int said)
{
  const struct sched_param none = {0};
  /* die with the parent: without it no process reads the answer */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(said, STDERR_FILENO);
  int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  bound(RLIMIT_CPU, limits->time_ns / 1000000000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  bound(RLIMIT_AS, limits->memory_bytes); /* a sanitizer maps terabytes before main */
#endif
  if (limits->idle) { /* each is set even if Linux refuses the other */
    setpriority(PRIO_PROCESS, 0, NICE_MOST);
    sched_setscheduler(0, SCHED_IDLE, &none);
  }
  run_program(arguments);
}

/* ---- here ------------------------------------------------------------------------- */

/* Keeps the first line of the error output, and discards the rest. */
static void hear(int fd, char said[SAID])
{
  char rest[SAID];
  size_t length = 0;
  for (ssize_t n; (n = read(fd, rest, sizeof rest)) != 0;) {
    if (n < 0 && errno != EINTR)
      break;
    size_t more = n > 0 ? (size_t)n : 0;
    if (more > SAID - 1 - length)
      more = SAID - 1 - length;
    memcpy(said + length, rest, more);
    length += more;
  }
  said[length] = '\0';
  said[strcspn(said, "\n")] = '\0';
}

static int judge(const char *name, int status, const char *said, struct lls_error *err)
{
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return 0;
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
    return lls_fail(err, -ETIME, "%s took too long, and was given up", name);
  if (WIFSIGNALED(status))
    return lls_fail(err, -ECHILD, "%s: %s", name, strsignal(WTERMSIG(status)));
  return lls_fail(err, -ECHILD, "%s",
                  said[0] != '\0' ? said : "it failed and said nothing");
}

int child_run(char *const arguments[], const struct child_limits *limits,
              struct lls_error *err)
{
  char said[SAID];
  int ends[2], status = 0;
  if (pipe2(ends, O_CLOEXEC) < 0)
    return lls_fail(err, -errno, "no pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child == 0)
    become(arguments, limits, ends[1]);
  int rc = child < 0 ? -errno : 0;
  close(ends[1]);
  if (rc == 0)
    hear(ends[0], said);
  close(ends[0]);
  if (rc < 0)
    return lls_fail(err, rc, "%s: cannot be started: %s", arguments[0], strerror(-rc));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  return judge(arguments[0], status, said, err);
}
