/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes any MPI library report support for GPU memory. For the emulator
 * this is true: its GPU memory is host memory. */
__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void)
{
  return 1;
}
