/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that fold the tokens of a sequence into a state: the short convolution, the
 * gated delta net and the state space of Mamba-2 (kernels/cpu/recurrent.h has the
 * formulas).
 *
 * A chain is the spans of one sequence, one after the other. A thread keeps its part of
 * the state in registers over all spans of its chain, and writes it to the target block
 * of each: a checkpoint in the middle of a step costs one more write. All three are
 * computed as recurrences, token after token, at any number of rows, so that a row's
 * result does not depend on where a step begins: any cut of a prompt gives the same bits.
 * The chunked forms of the papers would put two thirds of the operations on the tensor
 * cores, but round differently with each cut, and a prompt of Qwen3-Next spends about a
 * fifth of its time here (fold.cu).
 *
 * The state is read before the wait for earlier kernels: steps before have written it,
 * and the copy of this step's inputs has waited for them (kernel.cuh).
 */
#include "kernels/cuda/number.cuh"
#include "kernels/cuda/recurrent.h"

/* Returns the layer's part of a block. */
static __device__ __forceinline__ float *state_of(const lls_cuda_layer_states &s,
                                                  uint32_t block)
{
  return (float *)(s.at + block * s.block_bytes);
}

static __device__ __forceinline__ float logistic(float z)
{
  return 1 / (1 + expf(-z));
}

/* ---- the short convolution --------------------------------------------------------- */

#define CONV_THREADS 64
#define AHEAD        8 /* rows that a thread loads before it computes the first */

/* A channel's newest inputs, oldest first, and weights. Of a width less than MOST the
 * first ones are 0. */
template <int MOST> struct conv_window {
  float old[MOST - 1], weight[MOST];
};

template <int MOST>
static __device__ __forceinline__ void load_window(conv_window<MOST> &w,
                                                   const lls_cuda_conv &a, uint32_t block,
                                                   unsigned channel)
{
  const float *from = block == LLS_NO_STATE ? nullptr : state_of(a.states, block);
  unsigned lacking = MOST - a.width;
#pragma unroll
  for (unsigned j = 0; j < MOST - 1; j++)
    w.old[j] = j >= lacking && from != nullptr
                   ? from[(size_t)(j - lacking) * a.channels + channel]
                   : 0;
}

template <int MOST>
static __device__ __forceinline__ void store_window(const conv_window<MOST> &w,
                                                    const lls_cuda_conv &a,
                                                    uint32_t block, unsigned channel)
{
  float *to = state_of(a.states, block);
  unsigned lacking = MOST - a.width;
#pragma unroll
  for (unsigned j = 0; j < MOST - 1; j++)
    if (j >= lacking)
      to[(size_t)(j - lacking) * a.channels + channel] = w.old[j];
}

template <int MOST>
static __device__ __forceinline__ float convolve(conv_window<MOST> &w, float bias,
                                                 float u)
{
  float sum = bias;
#pragma unroll
  for (unsigned j = 0; j < MOST - 1; j++)
    sum += w.weight[j] * w.old[j];
#pragma unroll
  for (unsigned j = 0; j < MOST - 2; j++)
    w.old[j] = w.old[j + 1];
  w.old[MOST - 2] = u;
  return sum + w.weight[MOST - 1] * u;
}

/* n <= AHEAD rows from `row` on, of one channel. */
template <class T, int MOST>
static __device__ __forceinline__ void
convolve_rows(conv_window<MOST> &w, const lls_cuda_conv &a, float bias, size_t row,
              unsigned n, unsigned channel)
{
  float u[AHEAD], after[AHEAD];
#pragma unroll
  for (unsigned t = 0; t < AHEAD; t++) {
    size_t at = (row + t) * a.columns + channel;
    u[t] = t < n ? to_float(((const T *)a.x)[at]) : 0;
    if (t < n && a.before != nullptr)
      u[t] *= to_float(((const T *)a.before)[at]);
    after[t] = t < n && a.after != nullptr ? to_float(((const T *)a.after)[at]) : 1;
  }
#pragma unroll
  for (unsigned t = 0; t < AHEAD; t++)
    if (t < n) {
      float y = convolve(w, bias, u[t]);
      if (a.silu)
        y *= logistic(y);
      ((T *)a.y)[(row + t) * a.y_columns + channel] = from_float<T>(y * after[t]);
    }
}

/*
 * A thread for each channel of a chain, whose rows it takes in their order: y may be in
 * the place of x. Bytes: 4 a number of bf16 (8 with both factors), and the state of 12
 * bytes a channel twice; operations: 2 width + 5 a number. A prompt of n rows takes about
 * n / 8 times the latency of memory, 0.1 ms a layer for 1,024 rows of one sequence.
 */
template <class T, int MOST>
__global__ void __launch_bounds__(CONV_THREADS)
    convolve_channels(const lls_cuda_step *step, lls_cuda_conv a)
{
  unsigned channel = blockIdx.x * blockDim.x + threadIdx.x, chain = blockIdx.y;
  if (channel >= a.channels || chain >= step->n_chains) {
    wait_for_earlier();
    return;
  }
  const lls_state_span *span = step->spans + step->chains[chain];
  const lls_state_span *end = step->spans + step->chains[chain + 1];
  float bias = a.bias != nullptr ? a.bias[channel] : 0;
  conv_window<MOST> w;
#pragma unroll
  for (unsigned j = 0; j < MOST; j++)
    w.weight[j] = j + a.width >= MOST
                      ? a.weight[(size_t)(j + a.width - MOST) * a.channels + channel]
                      : 0;
  load_window(w, a, span->source, channel);
  wait_for_earlier();
  let_next_begin();
  for (; span < end; span++) {
    for (unsigned done = 0; done < span->n_rows; done += AHEAD)
      convolve_rows<T>(w, a, bias, (size_t)span->first_row + done,
                       span->n_rows - done < AHEAD ? span->n_rows - done : AHEAD,
                       channel);
    if (span->target != LLS_NO_STATE) /* not of guesses */
      store_window(w, a, span->target, channel);
  }
}

template <class T>
static int launch_conv(cudaStream_t s, const lls_cuda_step *step, dim3 grid,
                       const lls_cuda_conv &a)
{
  return a.width <= 4
             ? launch_early(s, convolve_channels<T, 4>, grid, CONV_THREADS, 0, step, a)
             : launch_early(s, convolve_channels<T, 8>, grid, CONV_THREADS, 0, step, a);
}

extern "C" int lls_cuda_run_conv(cudaStream_t s, enum lls_dtype numbers,
                                 const struct lls_cuda_step *step, uint32_t n_chains,
                                 const struct lls_cuda_conv *a)
{
  dim3 grid((a->channels + CONV_THREADS - 1) / CONV_THREADS, n_chains);
  if (n_chains == 0 || a->channels == 0)
    return 0;
  return numbers == LLS_F32 ? launch_conv<float>(s, step, grid, *a)
                            : launch_conv<bf16>(s, step, grid, *a);
}
