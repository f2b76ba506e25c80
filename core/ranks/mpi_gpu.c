/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does this MPI take pointers to the memory of GPUs? What is asked is its own word, and
 * as it runs: the same build may run with one that does and one that does not. It is a
 * function that Open MPI, MPICH and those made from it have; without it the answer is no.
 */
#include "core/ranks/mpi_world.h"

#include <dlfcn.h>

bool lls_mpi_is_gpu_aware(void)
{
  int (*ask)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  return ask != NULL && ask() == 1;
}
