/* SPDX-License-Identifier: Apache-2.0 */
/* The channel over MPI; internal to the module ranks_mpi.so. */
#ifndef LLS_RANKS_MPI_CHANNEL_H
#define LLS_RANKS_MPI_CHANNEL_H

#include "core/channel/channel.h"

/* Once in a process, instead of ranks: lls_ranks_mpi_channel. */
int lls_mpi_channel_open(struct lls_channel **out, struct lls_error *err);

#endif
