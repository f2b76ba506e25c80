/* SPDX-License-Identifier: Apache-2.0 */
/* The matrices of LoRA adapters and the rows that they change, as a device's adapt and
 * adapt_experts get them (device.h). */
#ifndef LLS_DEVICE_ADAPTERS_H
#define LLS_DEVICE_ADAPTERS_H

#include <stddef.h>
#include <stdint.h>

/* The low-rank change of some outputs of a product (LoRA): y += (x a^T) b. Matrices are
 * f32 in host memory; if the device has adapter_write, in the activations' type and in
 * memory that it can read. */
struct lls_low_rank {
  const void *a, *b; /* (rank, a_stride) and (rank, b_stride), from the first input and
                      * output of this rank's share on; for adapt_experts such a matrix
                      * of each expert */
  uint32_t rank;
  uint32_t a_stride, b_stride; /* numbers */
  uint32_t first_output, outputs;
};

/* q, k and v of one product may have a change each. */
#define LLS_MAX_LOW_RANK 3

/* Numbers of an adapter's matrices, and where the device is to have them. */
struct lls_adapter_numbers {
  const float *from; /* (n) */
  size_t n;
  void *to; /* (n) in the activations' type */
};

/* Rows of a step that have the same changes. */
struct lls_adapted_rows {
  struct lls_low_rank parts[LLS_MAX_LOW_RANK];
  uint32_t n_parts;
  float scale;          /* of the changes */
  const uint32_t *rows; /* (n_rows) host memory */
  uint32_t n_rows;
};

#endif
