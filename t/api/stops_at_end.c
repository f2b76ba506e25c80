/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: a process that stops as it begins to end MPI, whichever way it begins
 * to, and does not go on.
 */
#include <signal.h>

int MPI_Ibarrier(void *comm, void *request);
int MPI_Finalize(void);

int MPI_Ibarrier(void *comm, void *request)
{
  (void)comm, (void)request;
  return raise(SIGSTOP);
}

int MPI_Finalize(void)
{
  return raise(SIGSTOP);
}
