/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that few models need (core/device/extras.h), as the host side of this folder
 * sees them; see kernels.h. */
#ifndef LLS_CUDA_EXTRAS_H
#define LLS_CUDA_EXTRAS_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- extras.cu ------------------------------------------------------------------- */

enum lls_cuda_change_kind {
  LLS_CUDA_XIELU, /* x becomes xielu(x) */
  LLS_CUDA_GROW,  /* x is multiplied by the growth of its row's position */
  LLS_CUDA_GATE,  /* x is multiplied by the logistic function of its row's score */
  LLS_CUDA_SCALE, /* x is multiplied by a factor */
};

/* Changes the first `columns` numbers of each row in place. */
struct lls_cuda_change {
  enum lls_cuda_change_kind kind;
  uint32_t n_rows, columns;
  uint32_t stride; /* elements from row to row */
  struct lls_xielu xielu;
  struct lls_query_growth growth;
  float factor;
  const float *scores; /* (n_rows) */
  void *x;
};

int lls_cuda_run_change(cudaStream_t, enum lls_dtype numbers,
                        const struct lls_cuda_step *, const struct lls_cuda_change *);

/* ---- streams.cu: LLS_EXTRA_STREAMS ----------------------------------------------- */

/* predict, or correct if x is not NULL; see core/device/device.h. */
struct lls_cuda_mix_streams {
  uint32_t n_rows, columns, n;
  const float *scores, *mix;
  const float *scale;             /* (columns), or NULL */
  const void *x;                  /* (n_rows, columns), or NULL */
  void *streams[LLS_MAX_STREAMS]; /* (n) each (n_rows, columns) */
  void *y;                        /* (n_rows, columns) */
};

struct lls_cuda_match_size {
  uint32_t n_rows, columns;
  const void *like;
  void *x;
};

struct lls_cuda_cut_gates {
  uint32_t n_rows, columns, whole;
  float factor;
  enum lls_cuda_squares use;
  float *sums; /* (n_rows, 2) of a row's gates and of their squares; NULL: OWN */
  void *x;     /* (n_rows, 2 columns) of which the first half is cut */
};

int lls_cuda_run_mix_streams(cudaStream_t, enum lls_dtype numbers,
                             const struct lls_cuda_mix_streams *);
int lls_cuda_run_match_size(cudaStream_t, enum lls_dtype numbers,
                            const struct lls_cuda_match_size *);
int lls_cuda_run_cut_gates(cudaStream_t, enum lls_dtype numbers,
                           const struct lls_cuda_cut_gates *);

/* ---- latent.cu: multi-head latent attention -------------------------------------- */

/* Fills what no product makes of rows (n_rows, (heads + 1) (rank + rope)): of each head
 * the numbers that rotate, and the normed latent. */
struct lls_cuda_latent {
  uint32_t n_rows;
  struct lls_latent_shape shape;
  const void *q, *kv;
  void *rows;
};

int lls_cuda_run_latent(cudaStream_t, enum lls_dtype numbers,
                        const struct lls_cuda_latent *);

/* attention_latent.cu: of latents of some sizes, in bf16, with large items alone; as the
 * functions of the same names in kernels.h. */
#define LLS_CUDA_LATENT_QUERIES 64
bool lls_cuda_attention_latent_fits(enum lls_dtype numbers, const struct lls_cuda_pool *,
                                    const struct lls_cuda_attention *);
int lls_cuda_attention_latent_setup(void);
int lls_cuda_run_attention_latent(cudaStream_t, const struct lls_cuda_step *,
                                  const struct lls_cuda_plan *,
                                  const struct lls_cuda_pool *,
                                  const struct lls_cuda_grid *,
                                  const struct lls_cuda_states *,
                                  const struct lls_cuda_attention *);

#ifdef __cplusplus
}
#endif

#endif
