/* SPDX-License-Identifier: Apache-2.0 */
/* Products by cuBLASLt: declarations shared by products.c, which runs them, and
 * algorithms.c, which chooses among cuBLASLt's algorithms. */
#ifndef LLS_CUDA_PRODUCTS_H
#define LLS_CUDA_PRODUCTS_H

#include "kernels/cuda/cuda.h"

#define LLS_CUDA_MAX_SHAPES  1024 /* a power of two */
#define LLS_CUDA_MAX_CHOICES 512

struct lls_cuda_product_key { /* compared byte by byte */
  uint64_t outputs, inputs, n_rows, stride;
  uint32_t add, epilogue, f32, e4m3, scaled, int8, used;
  uint32_t alignment; /* bytes, common to all matrices */
};

struct lls_cuda_product_shape {
  struct lls_cuda_product_key key; /* the entry is unused if key.used is 0 */
  cublasLtMatmulDesc_t matmul;
  cublasLtMatrixLayout_t w, x, y;
  cublasLtMatmulAlgo_t algo;
  /* cuBLASLt has no algorithm for this 8-bit product; the caller then widens the
   * weights */
  bool none;
};

/* The choice that timing made for a shape, kept as long as the device exists. */
struct lls_cuda_choice {
  struct lls_cuda_product_key key;
  cublasLtMatmulAlgo_t algo;
  uint32_t index, of; /* number of algorithms that were compared, in the heuristic's
                         order; at most 1: not timed */
  /* time of one product with this algorithm; with the heuristic's first */
  float ms, first_ms;
};

struct lls_cuda_products {
  cublasLtHandle_t lt;
  cublasLtMatmulPreference_t preference;
  void *workspace; /* device memory */
  struct lls_cuda_product_shape shapes[LLS_CUDA_MAX_SHAPES];
  uint32_t n_shapes;
  bool timed; /* false with LLS_CUDA_ALGORITHMS=first */
  struct lls_cuda_choice choices[LLS_CUDA_MAX_CHOICES];
  uint32_t n_choices;
  int64_t spent_ns; /* time spent on timing */
};

/* products.c */
struct lls_cuda_product_key lls_cuda_product_key(const struct lls_cuda_product *);
/* Returns NULL if cuBLASLt has no algorithm. The step has then failed, except for e4m3
 * and int8. */
struct lls_cuda_product_shape *lls_cuda_product_find(struct lls_cuda_device *,
                                                     const struct lls_cuda_product_key *);
/* Returns at most n of cuBLASLt's algorithms, the most promising first; *found > 0, or
 * an error. All satisfy the preferences of products.c. */
cublasStatus_t lls_cuda_product_algorithms(const struct lls_cuda_products *,
                                           const struct lls_cuda_product_shape *,
                                           int most, cublasLtMatmulHeuristicResult_t *,
                                           int *found);
/* Puts a product of that shape on the stream. */
cublasStatus_t lls_cuda_multiply(const struct lls_cuda_device *,
                                 const struct lls_cuda_product_shape *,
                                 const cublasLtMatmulAlgo_t *,
                                 const struct lls_cuda_product *);

/* Returns NULL if the shape was not timed. */
const struct lls_cuda_choice *
lls_cuda_product_choice(const struct lls_cuda_products *,
                        const struct lls_cuda_product_key *);

/* algorithms.c: may this device time algorithms? */
bool lls_cuda_times(const struct lls_cuda_device *);

#endif
