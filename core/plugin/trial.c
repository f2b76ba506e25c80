/* SPDX-License-Identifier: Apache-2.0 */
/* See trial.h. */
#include "core/plugin/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char lls_trial_program[] = "/proc/self/exe";

/* Returns the program's path, by name, since valgrind intercepts that; but under a
 * system call filter, which compares addresses, lls_trial_program; a program whose file
 * was replaced has no name. */
static const char *own_program(char path[PATH_MAX])
{
  ssize_t n = readlink(lls_trial_program, path, PATH_MAX - 1);
  path[n < 0 ? 0 : n] = '\0';
  bool filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
  return filtered || access(path, X_OK) < 0 ? lls_trial_program : path;
}

static int spawn(int fd, pid_t *child)
{
  char path[PATH_MAX], *arguments[] = {"llmserve", LLS_TRIAL_ARGUMENT, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  const char *program = own_program(path);
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  int rc = posix_spawn_file_actions_adddup2(&files, fd, LLS_TRIAL_COPY);
  for (int i = 0; i < LLS_TRIAL_COPY && rc == 0; i++)
    rc = posix_spawn_file_actions_addopen(&files, i, "/dev/null", O_RDWR, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(&files, LLS_TRIAL_COPY + 1);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (rc == 0)
    rc = posix_spawn(child, program, &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return -rc;
}

int lls_trial(int fd, char died[128])
{
  pid_t child;
  int status = 0;
  if (spawn(fd, &child) < 0)
    return 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == LLS_TRIAL_SURVIVED)
    return 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    snprintf(died, 128, "opening it had not ended after %d s", LLS_TRIAL_SECONDS);
  else if (WIFSIGNALED(status))
    snprintf(died, 128, "opening it died of SIG%s", sigabbrev_np(WTERMSIG(status)));
  else
    snprintf(died, 128, "opening it ended the process");
  return -ENOEXEC;
}
