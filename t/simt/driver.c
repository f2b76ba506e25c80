/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVIDIA's driver, libcuda.so.1, which only has to exist. */
int simt_driver(void);

int simt_driver(void)
{
  return 1;
}
