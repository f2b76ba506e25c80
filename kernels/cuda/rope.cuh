/* SPDX-License-Identifier: Apache-2.0 */
/* Rotating one head's vector (RoFormer, Su et al., 2021, eq. 34), in pairs (i, i +
 * pairs). */
#ifndef LLS_CUDA_ROPE_CUH
#define LLS_CUDA_ROPE_CUH

#include "kernels/cuda/number.cuh"

/* In place, by the lanes of a row of threads; the sines follow the cosines. */
template <class T>
static __device__ __forceinline__ void rotate(uint32_t pairs, const float *cosine, T *x)
{
  const float *sine = cosine + pairs;
  for (unsigned i = threadIdx.x; i < pairs; i += blockDim.x) {
    float u = to_float(x[i]), v = to_float(x[i + pairs]);
    x[i] = from_float<T>(u * cosine[i] - v * sine[i]);
    x[i + pairs] = from_float<T>(v * cosine[i] + u * sine[i]);
  }
}

#endif
