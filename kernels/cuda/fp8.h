/* SPDX-License-Identifier: Apache-2.0 */
/* Activations to e4m3: what fp8.cu is told; as kernels.h, of which nothing else knows. */
#ifndef LLS_CUDA_FP8_H
#define LLS_CUDA_FP8_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_cuda_quantise {
  uint32_t n_rows, columns; /* columns a multiple of 4 */
  uint32_t stride;          /* bytes of a row of codes: columns to whole pieces */
  const void *x;            /* (n_rows, columns) bf16 */
  uint8_t *codes;           /* (n_rows, stride) zeros beyond the columns */
  float *scales;            /* (n_rows) */
};
int lls_cuda_run_quantise(cudaStream_t, const struct lls_cuda_quantise *);

#ifdef __cplusplus
}
#endif

#endif
