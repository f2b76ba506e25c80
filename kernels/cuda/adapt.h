/* SPDX-License-Identifier: Apache-2.0 */
/* The products of LoRA adapters (core/device/device.h, adapt): the kernels of adapt.cu
 * with their parameters, and the vtable's functions of adapt.c, which record them. */
#ifndef LLS_CUDA_ADAPT_H
#define LLS_CUDA_ADAPT_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_CUDA_ADAPT_TILE  8 /* most entries of a thread block */
#define LLS_CUDA_ADAPT_RANKS 256
#define LLS_CUDA_NO_ROW      UINT32_MAX /* an entry that pads a list */
#define LLS_CUDA_NO_ADAPTER  UINT32_MAX

/* An adapter's changes of a product, in device memory. */
struct lls_cuda_adapter {
  float scale;
  uint32_t n_parts;
  struct lls_low_rank parts[LLS_MAX_LOW_RANK];
};

/*
 * The changes of a product. An entry is a row of x and y, its adapter, and for experts
 * the expert. Without experts, entry i is row rows[i]; the entries of an adapter follow
 * each other. With experts, entry i is row i, which the route sorted by expert, of the
 * step's row route_row[i]. Pointers are device memory; what they point to may differ
 * between steps with the same record.
 */
struct lls_cuda_adapt {
  const struct lls_cuda_adapter *adapters; /* (adapters) */
  const uint32_t *adapter_of;              /* (padded rows of the step) or NO_ADAPTER */
  const uint32_t *rows; /* (first + entries) or NO_ROW; NULL: experts */
  const uint32_t *route_row, *route_first; /* lls_route's row and first */
  uint32_t experts;
  uint32_t first, entries, all; /* this record's entries, of `all` */
  uint32_t tile;                /* entries of a thread block, 1 to LLS_CUDA_ADAPT_TILE */
  uint32_t parts, ranks;        /* most of an adapter, most of a part */
  uint32_t columns;             /* most outputs of a part */
  uint32_t inputs, outputs;
  uint32_t wide_inputs,
      wide_outputs; /* 1: 16 bytes of x and a, a pair of y and b, at once */
  const void *x;
  float *t; /* (entries, parts, ranks) */
  void *y;
};

int lls_cuda_run_adapt(cudaStream_t, enum lls_dtype numbers,
                       const struct lls_cuda_adapt *);

#ifdef __cplusplus
}
#endif

/* adapt.c */
struct lls_cuda_device;
void lls_cuda_adapt_rows(struct lls_device *, const struct lls_adapted_rows *,
                         uint32_t n_groups, const void *x, uint32_t inputs,
                         float *scratch, void *y, uint32_t outputs);
void lls_cuda_adapt_experts(struct lls_device *, const struct lls_adapted_rows *,
                            uint32_t n_groups, const struct lls_route *, uint32_t n_rows,
                            const void *x, uint32_t inputs, float *scratch, size_t room,
                            void *y, uint32_t outputs);
int lls_cuda_adapter_write(struct lls_device *, enum lls_memory,
                           const struct lls_adapter_numbers *parts, size_t n);

#endif
