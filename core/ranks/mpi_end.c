/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of MPI. MPI_Finalize waits for all processes and reports no death, so it is
 * called only if all processes have reached this point: a nonblocking barrier that is
 * tested. The remaining risk is a death between this barrier and MPI_Finalize, which
 * follows at once.
 */
#include "core/ranks/mpi_world.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 1000000
/* For a process that hangs, or whose death cannot be observed, on another machine. */
#define WAIT_S 10
/* Processes other than process 0 wait this much longer. If they ended first, process 0
 * would see a dead process, take it for the cause, and not kill the one that hangs. */
#define LATER_S 3

static bool is_dead(pid_t pid)
{
  struct pollfd fd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
  if (fd.fd < 0)
    return errno == ESRCH;
  bool dead = poll(&fd, 1, 0) == 1;
  close(fd.fd);
  return dead;
}

static bool any_is_dead(const struct lls_mpi_end *end)
{
  for (uint32_t i = 0; i < end->n; i++)
    if (end->pids[i] > 0 && is_dead(end->pids[i]))
      return true;
  return false;
}

static time_t now_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec;
}

/* Process 0: kills the processes that have not arrived, since they hang and the
 * launcher would wait for them. A process that has arrived has waited as long, and has
 * nothing left to do. */
static void end_hung(const struct lls_mpi_end *end)
{
  int self = -1;
  MPI_Comm_rank(end->comm, &self);
  for (uint32_t i = 0; self == 0 && i < end->n; i++)
    if (end->pids[i] > 0 && !is_dead(end->pids[i]))
      kill(end->pids[i], SIGKILL);
}

static bool all_have_come(const struct lls_mpi_end *end)
{
  MPI_Request request;
  int done = 0, self = 0;
  MPI_Comm_rank(end->comm, &self);
  if (MPI_Ibarrier(end->comm, &request) != MPI_SUCCESS)
    return false;
  for (time_t until_s = now_s() + WAIT_S + (self > 0 ? LATER_S : 0); now_s() < until_s;) {
    bool dead = any_is_dead(end); /* checked before the test, since a process that
                                   * passed the barrier may end */
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done || dead)
      break;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
  if (!done && !any_is_dead(end))
    end_hung(end);
  return done;
}

void lls_mpi_end(const struct lls_mpi_end *end)
{
  if (all_have_come(end))
    MPI_Finalize();
}
