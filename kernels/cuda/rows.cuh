/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels that read and write each number of some rows once: 16 bytes at a
 * time where rows begin at multiples of that. */
#ifndef LLS_CUDA_ROWS_CUH
#define LLS_CUDA_ROWS_CUH

#include "kernels/cuda/number.cuh"

#define THREADS 256

/* Returns the number of threads worth using for n pieces of work of a row. */
static inline unsigned threads_for(uint32_t n, uint32_t most = THREADS)
{
  uint32_t threads = (n + WARP - 1) / WARP * WARP;
  return threads < most ? threads : most;
}

/* Calls a function template for the activations' type, wide where rows allow it. */
#define FOR_NUMBERS(numbers, columns, function, ...)                                     \
  ((numbers) == LLS_F32          ? (columns) % WIDE<float> == 0                          \
                                       ? function<float, WIDE<float>>(__VA_ARGS__)       \
                                       : function<float, 1>(__VA_ARGS__)                 \
            : (columns) % WIDE<bf16> == 0 ? function<bf16, WIDE<bf16>>(__VA_ARGS__)      \
                                 : function<bf16, 1>(__VA_ARGS__))

/* Returns the grid: rows along x, pieces of a row along y. */
static inline dim3 row_pieces(uint32_t n_rows, uint32_t n, unsigned threads)
{
  return dim3(n_rows, (n + threads - 1) / threads);
}

/* Launches one of these kernels with a thread for each group of a row's `columns`. */
template <int N, class... P, class... A>
static int launch_rows(cudaStream_t s, void (*kernel)(P...), uint32_t n_rows,
                       uint32_t columns, A... arguments)
{
  uint32_t n = columns / N;
  unsigned threads = threads_for(n);
  return launch_early(s, kernel, row_pieces(n_rows, n, threads), threads, 0,
                      arguments...);
}

#endif
