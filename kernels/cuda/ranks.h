/* SPDX-License-Identifier: Apache-2.0 */
/* Other ranks, over NCCL; ranks.c. */
#ifndef LLS_CUDA_RANKS_H
#define LLS_CUDA_RANKS_H

#include "core/ranks/ranks.h"
#include "kernels/cuda/cuda.h"

struct lls_cuda_all_reduce {
  uint32_t n_rows, columns;
  uint32_t f32; /* x is f32, whatever activations are */
  void *x;
};

struct lls_cuda_gather_columns {
  uint32_t n_rows, columns;
  const float *part;
  float *y;
};

struct lls_cuda_all_gather { /* columns are those of a part */
  uint32_t n_rows, columns;
  const void *part; /* (n_rows, columns) */
  void *parts;      /* (ranks, n_rows, columns) on the way */
  void *whole;      /* (n_rows, ranks columns) */
};

/* Joins the group of options.ranks, if there is one; every rank at the same time. */
int lls_cuda_ranks_create(struct lls_cuda_device *, struct lls_error *err);
void lls_cuda_ranks_destroy(struct lls_cuda_device *);

/* The operations. */
void lls_cuda_run_all_reduce(struct lls_cuda_device *,
                             const struct lls_cuda_all_reduce *);
void lls_cuda_run_gather_columns(struct lls_cuda_device *,
                                 const struct lls_cuda_gather_columns *);
/* For a device with ranks. */
void lls_cuda_run_all_gather(struct lls_cuda_device *,
                             const struct lls_cuda_all_gather *);

/* cudaEventSynchronize, but for a group that fails meanwhile: the step has failed then.
 */
int lls_cuda_ranks_wait(struct lls_cuda_device *, cudaEvent_t);
/* The same for everything that the step's stream was given. */
int lls_cuda_ranks_reach(struct lls_cuda_device *);

static inline uint32_t lls_cuda_n_ranks(const struct lls_cuda_device *d)
{
  return d->options.ranks != NULL ? d->options.ranks->size : 1;
}

#endif
