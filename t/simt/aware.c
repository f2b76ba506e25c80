/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes any MPI say that it takes the memory of GPUs, which the emulator's
 * is for every MPI: it is the host's. */
__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void)
{
  return 1;
}
