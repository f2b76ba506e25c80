/* SPDX-License-Identifier: Apache-2.0 */
/* Products by cuBLASLt: what products.c, which runs them, and algorithms.c, which chooses
 * among cuBLASLt's ways, have in common. */
#ifndef LLS_CUDA_PRODUCTS_H
#define LLS_CUDA_PRODUCTS_H

#include "kernels/cuda/cuda.h"

#define LLS_CUDA_MAX_SHAPES  1024 /* a power of two */
#define LLS_CUDA_MAX_CHOICES 512

struct lls_cuda_product_key { /* compared byte by byte */
  uint64_t outputs, inputs, n_rows, stride;
  uint32_t add, epilogue, f32, e4m3, scaled, int8, used;
  uint32_t alignment; /* bytes, of all matrices */
};

struct lls_cuda_product_shape {
  struct lls_cuda_product_key key; /* used 0: none */
  cublasLtMatmulDesc_t matmul;
  cublasLtMatrixLayout_t w, x, y;
  cublasLtMatmulAlgo_t algo;
  bool none; /* there is no algorithm: of 8 bits, which have another way then */
};

/* A shape that timing has decided on, for as long as the device is there. */
struct lls_cuda_choice {
  struct lls_cuda_product_key key;
  cublasLtMatmulAlgo_t algo;
  uint32_t index,
      of; /* in the heuristic's order, how many there were; of <= 1: untimed */
  float ms, first_ms; /* of a product: this one's, the first's */
};

struct lls_cuda_products {
  cublasLtHandle_t lt;
  cublasLtMatmulPreference_t preference;
  void *workspace; /* device */
  struct lls_cuda_product_shape shapes[LLS_CUDA_MAX_SHAPES];
  uint32_t n_shapes;
  bool timed; /* not LLS_CUDA_ALGORITHMS=first */
  struct lls_cuda_choice choices[LLS_CUDA_MAX_CHOICES];
  uint32_t n_choices;
  int64_t spent_ns; /* on timing */
};

/* products.c */
struct lls_cuda_product_key lls_cuda_product_key(const struct lls_cuda_product *);
/* NULL: there is no way to do that; the step has failed, but for e4m3 and int8. */
struct lls_cuda_product_shape *lls_cuda_product_find(struct lls_cuda_device *,
                                                     const struct lls_cuda_product_key *);
/* At most so many of cuBLASLt's algorithms, the most promising first; found > 0 or an
 * error. All keep what products.c asks for. */
cublasStatus_t lls_cuda_product_algorithms(const struct lls_cuda_products *,
                                           const struct lls_cuda_product_shape *,
                                           int most, cublasLtMatmulHeuristicResult_t *,
                                           int *found);
/* Puts a product of that shape on the stream. */
cublasStatus_t lls_cuda_multiply(const struct lls_cuda_device *,
                                 const struct lls_cuda_product_shape *,
                                 const cublasLtMatmulAlgo_t *,
                                 const struct lls_cuda_product *);

/* NULL: nothing was decided. */
const struct lls_cuda_choice *
lls_cuda_product_choice(const struct lls_cuda_products *,
                        const struct lls_cuda_product_key *);

/* algorithms.c: may this device time algorithms? */
bool lls_cuda_times(const struct lls_cuda_device *);

#endif
