/* SPDX-License-Identifier: Apache-2.0 */
/* Other ranks, over NCCL; ranks.c. */
#ifndef LLS_CUDA_RANKS_H
#define LLS_CUDA_RANKS_H

#include "core/ranks/ranks.h"
#include "kernels/cuda/cuda.h"

struct lls_cuda_all_reduce {
  uint32_t n_rows, columns;
  uint32_t f32; /* x is f32, even if activations are bf16 */
  void *x;
};

struct lls_cuda_gather_columns {
  uint32_t n_rows, columns;
  const float *part;
  float *y;
};

struct lls_cuda_all_gather { /* columns: of one rank's part */
  uint32_t n_rows, columns;
  const void *part; /* (n_rows, columns) */
  void *parts;      /* (ranks, n_rows, columns) as received */
  void *whole;      /* (n_rows, ranks columns) */
};

/* Joins the group of options.ranks, if there is one; all ranks call it at the same
 * time. */
int lls_cuda_ranks_create(struct lls_cuda_device *, struct lls_error *err);
void lls_cuda_ranks_destroy(struct lls_cuda_device *);

/* The operations. */
void lls_cuda_run_all_reduce(struct lls_cuda_device *,
                             const struct lls_cuda_all_reduce *);
void lls_cuda_run_gather_columns(struct lls_cuda_device *,
                                 const struct lls_cuda_gather_columns *);
/* For a device with several ranks. */
void lls_cuda_run_all_gather(struct lls_cuda_device *,
                             const struct lls_cuda_all_gather *);

/* Like cudaEventSynchronize, but returns if the group fails meanwhile; the step has
 * then failed. */
int lls_cuda_ranks_wait(struct lls_cuda_device *, cudaEvent_t);
/* Like lls_cuda_ranks_wait, for all work on the step's stream. */
int lls_cuda_ranks_reach(struct lls_cuda_device *);

static inline uint32_t lls_cuda_n_ranks(const struct lls_cuda_device *d)
{
  return d->options.ranks != NULL ? d->options.ranks->size : 1;
}

#endif
