/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of a layer in one tensor; used by mixture_loader.c only. */
#ifndef LLS_ENGINE_MIXTURE_LOADER_H
#define LLS_ENGINE_MIXTURE_LOADER_H

#include "core/engine/tensor_loader.h"

/* Rows first, first + step, ... of one expert's matrix in a tensor of all experts', of
 * which a range is taken. */
struct lls_stack_rows {
  const char *name; /* without a suffix */
  size_t rows;      /* an expert's rows in the folder */
  struct lls_range taken;
  size_t first, step;
};

/* stacked_experts.c: true if the layer's experts are such tensors, in plain numbers. */
bool lls_loader_has_stack(const struct lls_loader *, int layer);
int lls_loader_stack_up(struct lls_loader *, int layer, uint32_t expert,
                        struct lls_weight **out);
int lls_loader_stack_down(struct lls_loader *, int layer, uint32_t expert,
                          struct lls_weight **out);

/* Reads the biases of those rows. The caller frees out->data. */
int lls_loader_stack_bias(const struct lls_loader *, int layer, uint32_t expert,
                          const struct lls_stack_rows *, struct lls_tensor_view *out);

#endif
