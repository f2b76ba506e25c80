/* SPDX-License-Identifier: Apache-2.0 */
/* Data shared by the files of the module ranks_mpi.so, which alone is linked with MPI. */
#ifndef LLS_RANKS_MPI_WORLD_H
#define LLS_RANKS_MPI_WORLD_H

#include <mpi.h>

#include "core/channel/channel.h"
#include "core/ranks/neighbours.h"
#include "core/ranks/ranks.h"

/* All processes, which end MPI together. */
struct lls_mpi_end {
  MPI_Comm comm;
  uint32_t n;
  pid_t pids[LLS_MAX_RANKS]; /* (n) as from lls_neighbours_find */
};

/* A subset of the processes that includes this one, and forms a group or a channel. */
struct lls_mpi_members {
  MPI_Comm comm;
  uint32_t self, n;
  struct lls_hello *hellos;      /* (n) */
  pid_t pids[LLS_MAX_RANKS];     /* (n) as from lls_neighbours_find */
  struct lls_neighbours near;    /* computed over all processes of this machine */
  const struct lls_mpi_end *end; /* set for the object whose orderly destruction ends
                                  * MPI; else NULL */
};

/* mpi.c, mpi_channel.c: all members call them together. */
int lls_mpi_ranks_open(const struct lls_mpi_members *, int64_t timeout_ns,
                       struct lls_ranks **out, struct lls_error *err);
int lls_mpi_channel_open(const struct lls_mpi_members *, struct lls_channel **out,
                         struct lls_error *err);

/* mpi_end.c: ends MPI if all processes call it; else MPI is left running. */
void lls_mpi_end(const struct lls_mpi_end *);

#endif
