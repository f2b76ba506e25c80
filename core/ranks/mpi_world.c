/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes that the launcher has started, and their roles: one group of ranks; or
 * instances, each of one process or of a group of consecutive ones. In the latter case
 * the ranks with the same number, one per instance, have a channel, over which a rank
 * sends blocks to the rank with the same part of the model; the channel of the ranks 0
 * also carries the messages.
 *
 *            instance 0     instance 1
 *   rank 0   process 0 <--> process 2      two channels across,
 *   rank 1   process 1 <--> process 3      two groups, each with a channel within
 */
#include "config.h"

#include "core/ranks/mpi_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_NS 1000000 /* nap while other processes have not begun yet */

struct world {
  MPI_Comm comm;
  uint32_t self, n;
  struct lls_hello *all; /* (n) */
  struct lls_mpi_end end;
  struct lls_neighbours near;
};

/* ---- joining ---------------------------------------------------------------------- */

static int start_mpi(struct world *w, int level, struct lls_error *err)
{
  int provided = MPI_THREAD_SINGLE, rank = 0, size = 1;
  if (MPI_Init_thread(NULL, NULL, level, &provided) != MPI_SUCCESS || provided < level)
    return lls_fail(err, -ENOTSUP, "this MPI cannot be used by threads %s",
                    level == MPI_THREAD_MULTIPLE ? "at once" : "in turn");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
  MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(w->comm, &rank);
  MPI_Comm_size(w->comm, &size);
  w->self = (uint32_t)rank;
  w->n = (uint32_t)size;
  return size <= LLS_MAX_RANKS
             ? 0
             : lls_fail(err, -EINVAL, "%d processes where %d are the most", size,
                        LLS_MAX_RANKS);
}

/* Exchanges greetings, which every process does, whatever its configuration, and even
 * if it cannot start. */
static int greet(struct world *w, const struct lls_hello *mine, struct lls_error *err)
{
  MPI_Request request;
  int done = 0;
  w->all = calloc(w->n, sizeof *w->all);
  if (w->all == NULL)
    return lls_fail(err, -ENOMEM, "no memory for %u processes", w->n);
  MPI_Iallgather(mine, sizeof *mine, MPI_BYTE, w->all, sizeof *mine, MPI_BYTE, w->comm,
                 &request);
  for (;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done)
      return 0;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
}

/* ranks: per instance; 0: all processes are one instance. */
static int join(struct world *w, uint32_t ranks, struct lls_error *err)
{
  struct lls_hello mine;
  lls_hello_fill(&mine);
  mine.ranks = ranks;
  int rc = start_mpi(w, ranks > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, err);
  if (rc == 0)
    rc = greet(w, &mine, err);
  if (rc == 0)
    rc = lls_hello_check(w->all, w->n, err);
  if (rc == 0)
    w->near = lls_neighbours_find(w->all, w->n, w->self, w->end.pids);
  w->end.comm = w->comm;
  w->end.n = w->n;
  return rc;
}

/* ---- subsets of the processes ------------------------------------------------------ */

/* Selects every stride-th process from `first` on. */
static int choose(const struct world *w, uint32_t first, uint32_t stride, uint32_t n,
                  struct lls_mpi_members *out, struct lls_error *err)
{
  struct lls_hello *hellos = calloc(n, sizeof *hellos);
  if (hellos == NULL)
    return lls_fail(err, -ENOMEM, "no memory for %u processes", n);
  *out = (struct lls_mpi_members){
      .self = (w->self - first) / stride, .n = n, .hellos = hellos, .near = w->near};
  for (uint32_t i = 0; i < n; i++)
    hellos[i] = w->all[first + i * stride];
  lls_neighbours_find(hellos, n, out->self, out->pids);
  MPI_Comm_split(w->comm, (int)first, (int)w->self, &out->comm);
  return 0;
}

static int open_across(const struct world *w, uint32_t ranks, struct lls_channel **out,
                       struct lls_error *err)
{
  struct lls_mpi_members members = {0};
  int rc = choose(w, w->self % ranks, ranks, w->n / ranks, &members, err);
  members.end = &w->end;
  if (rc == 0)
    rc = lls_mpi_channel_open(&members, out, err);
  free(members.hellos);
  return rc;
}

static int open_within(const struct world *w, uint32_t ranks, int64_t timeout_ns,
                       struct lls_ranks_instance *out, struct lls_error *err)
{
  struct lls_mpi_members members = {0};
  int rc = choose(w, w->self / ranks * ranks, 1, ranks, &members, err);
  if (rc == 0)
    rc = lls_mpi_channel_open(&members, &out->within, err);
  if (rc == 0)
    rc = lls_mpi_ranks_open(&members, timeout_ns, &out->ranks, err);
  free(members.hellos);
  return rc;
}

/* After a failure other processes may have died: MPI is left running. */
static int open_instance(uint32_t ranks, int64_t timeout_ns,
                         struct lls_ranks_instance *out, struct lls_error *err)
{
  struct world w = {0};
  *out = (struct lls_ranks_instance){0};
  int rc = join(&w, ranks, err);
  if (rc == 0 && w.n % ranks != 0)
    rc = lls_fail(err, -ECANCELED,
                  "%u processes were started, which are no whole instances of %u ranks",
                  w.n, ranks);
  if (rc == 0)
    rc = open_across(&w, ranks, &out->channel, err);
  if (rc == 0 && ranks > 1)
    rc = open_within(&w, ranks, timeout_ns, out, err);
  free(w.all);
  return rc;
}

static int open_group(int64_t timeout_ns, struct lls_ranks **out, struct lls_error *err)
{
  struct world w = {0};
  struct lls_mpi_members members = {0};
  int rc = join(&w, 0, err);
  if (rc == 0)
    rc = choose(&w, 0, 1, w.n, &members, err);
  members.end = &w.end;
  if (rc == 0)
    rc = lls_mpi_ranks_open(&members, timeout_ns, out, err);
  free(members.hellos);
  free(w.all);
  return rc;
}

static bool decline(const char *why, bool *first)
{
  struct world w = {0};
  struct lls_hello mine;
  lls_hello_fill(&mine);
  snprintf(mine.why_not, sizeof mine.why_not, "%s", why);
  if (start_mpi(&w, MPI_THREAD_SERIALIZED, NULL) < 0)
    return false;
  *first = w.self == 0;
  int rc = greet(&w, &mine, NULL);
  free(w.all);
  return rc == 0;
}

extern const struct lls_ranks_module lls_ranks_module;
__attribute__((visibility("default"))) const struct lls_ranks_module lls_ranks_module = {
    .size = sizeof(struct lls_ranks_module),
    .version = PACKAGE_VERSION,
    .open = open_group,
    .decline = decline,
    .open_instance = open_instance,
};
