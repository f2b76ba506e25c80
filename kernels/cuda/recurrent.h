/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that keep a state of each sequence (core/device/states.h): the kernels of
 * recurrent.cu and gated.cu with their parameters, and the vtable's functions of
 * recurrent.c, which record them.
 */
#ifndef LLS_CUDA_RECURRENT_H
#define LLS_CUDA_RECURRENT_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The states of a layer: block b's begins at `at` + b * block_bytes. */
struct lls_cuda_layer_states {
  char *at;
  uint64_t block_bytes;
};

/* The convolution of a step's rows. x has `columns` numbers in a row, y has y_columns;
 * both begin at the layer's first channel. */
struct lls_cuda_conv {
  struct lls_cuda_layer_states states;
  uint32_t n_rows, channels, width, silu;
  const float *weight, *bias;
  uint32_t columns, y_columns;
  const void *x, *before, *after; /* before, after: NULL if there is no factor */
  void *y;
};

/* The gated delta net, or the state space of Mamba-2: each head keeps a matrix of `rows`
 * rows and `columns` columns. Key heads are the groups of a state space; q is C, k is B
 * and v is x. */
struct lls_cuda_fold {
  struct lls_cuda_layer_states states;
  uint32_t n_rows, delta; /* delta 1: the gated delta net */
  uint32_t heads, key_heads, rows, columns, tiled;
  float epsilon, scale, dt_min, dt_max;
  const float *rate, *dt_bias, *skip;
  uint32_t stride;       /* numbers from row to row of q, k and v */
  const void *q, *k, *v; /* the first numbers of the step's first row */
  const void *gates;     /* delta: (n_rows, 2 heads) b, then a; else (n_rows, heads) */
  void *out;             /* (n_rows, heads columns) */
};

struct lls_cuda_norm_gated {
  uint32_t n_rows, groups, columns;
  uint32_t weight_stride; /* numbers from one group's weights to the next one's, or 0 */
  uint32_t gate_first, gate_columns;
  float epsilon;
  const float *weight; /* NULL: no norm */
  const void *gate;    /* the gate of the first row */
  void *y;
};

struct lls_cuda_gate_columns {
  size_t n;
  const void *gates;
  void *x; /* (n) x *= the logistic function of gates */
};

/* The step's chains say which rows are computed. recording: the grid must fit every step
 * with n_rows; otherwise the step has n_chains. */
int lls_cuda_run_conv(cudaStream_t, enum lls_dtype numbers, const struct lls_cuda_step *,
                      uint32_t n_chains, const struct lls_cuda_conv *);
int lls_cuda_run_fold(cudaStream_t, enum lls_dtype numbers, const struct lls_cuda_step *,
                      uint32_t n_chains, const struct lls_cuda_fold *);
int lls_cuda_run_norm_gated(cudaStream_t, enum lls_dtype numbers,
                            const struct lls_cuda_norm_gated *);
int lls_cuda_run_gate_columns(cudaStream_t, enum lls_dtype numbers,
                              const struct lls_cuda_gate_columns *);

/* recurrent.c: the vtable's functions */
void lls_cuda_record_conv(struct lls_device *, const struct lls_conv_shape *, void *x,
                          void *y);
void lls_cuda_record_delta(struct lls_device *, const struct lls_delta_shape *,
                           const void *rows, const void *gates, void *out);
void lls_cuda_record_space(struct lls_device *, const struct lls_space_shape *,
                           const void *rows, const void *steps, void *out);
void lls_cuda_record_norm_gated(struct lls_device *, const struct lls_gated_norm_shape *,
                                const void *rows, uint32_t n_rows, void *y);
void lls_cuda_record_gate_columns(struct lls_device *, const void *gates, void *x,
                                  uint32_t n_rows, uint32_t columns);

#ifdef __cplusplus
}
#endif

#endif
