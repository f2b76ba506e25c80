/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVIDIA's driver, libcuda.so.1: it only has to be there. */
int simt_driver(void);

int simt_driver(void)
{
  return 1;
}
