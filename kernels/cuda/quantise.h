/* SPDX-License-Identifier: Apache-2.0 */
/* Activations to 8 bits and back: the parameters of quantise.cu's kernels, as kernels.h
 * has those of the other kernels. Only linear.c launches them. */
#ifndef LLS_CUDA_QUANTISE_H
#define LLS_CUDA_QUANTISE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_cuda_quantise {
  uint32_t n_rows, columns; /* columns: a multiple of 4 */
  uint32_t stride;          /* bytes of a row of codes: whole pieces */
  const void *x;            /* (n_rows, columns) bf16 */
  uint8_t *codes;           /* (n_rows, stride) zero beyond the columns */
  float *scales;            /* (n_rows) */
};
int lls_cuda_run_quantise_e4m3(cudaStream_t, const struct lls_cuda_quantise *);
int lls_cuda_run_quantise_int8(cudaStream_t, const struct lls_cuda_quantise *);

/* y = sums x_scale w_scale + bias, added to y if `add`. */
struct lls_cuda_scale_sums {
  uint32_t n_rows, outputs; /* outputs: a multiple of 4 */
  uint32_t stride;          /* elements from row to row of y */
  uint32_t add, relu;
  uint32_t f32;          /* 1: sums are f32, of e4m3; 0: int32_t, of int8 */
  const void *sums;      /* (n_rows, outputs) sums of products of codes */
  const float *x_scales; /* (n_rows) */
  const float *w_scales; /* (outputs) */
  const float *bias;     /* (outputs) or NULL */
  void *y;               /* (n_rows, stride) bf16 */
};
int lls_cuda_run_scale_sums(cudaStream_t, const struct lls_cuda_scale_sums *);

#ifdef __cplusplus
}
#endif

#endif
