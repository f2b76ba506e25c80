/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of the module ranks_mpi.so, which alone is linked with MPI. */
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
  pid_t pids[LLS_MAX_RANKS]; /* (n) as lls_neighbours_find */
};

/* Some of the processes, this one among them, that have something to do with each other.
 */
struct lls_mpi_members {
  MPI_Comm comm;
  uint32_t self, n;
  struct lls_hello *hellos;      /* (n) */
  pid_t pids[LLS_MAX_RANKS];     /* (n) as lls_neighbours_find */
  struct lls_neighbours near;    /* among all processes of this machine */
  const struct lls_mpi_end *end; /* who is destroyed in order ends MPI; NULL: not so */
};

/* mpi.c, mpi_channel.c: all members do the same. */
int lls_mpi_ranks_open(const struct lls_mpi_members *, int64_t timeout_ns,
                       struct lls_ranks **out, struct lls_error *err);
int lls_mpi_channel_open(const struct lls_mpi_members *, struct lls_channel **out,
                         struct lls_error *err);

/* mpi_end.c: where all come to this; else MPI is left as it is. */
void lls_mpi_end(const struct lls_mpi_end *);

#endif
