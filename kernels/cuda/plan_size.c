/* SPDX-License-Identifier: Apache-2.0 */
/* How large a plan of attention is, and its grid; plan.c makes it. A state has as many
 * queries as a small item, LLS_CUDA_SMALL. */
#include "kernels/cuda/ops.h"

uint32_t lls_cuda_plan_spare(const struct lls_cuda_device *d, uint32_t kv_heads)
{
  return 4 * (uint32_t)d->properties.multiProcessorCount / kv_heads + 1;
}

size_t lls_cuda_plan_bytes(const struct lls_cuda_device *d, uint32_t n_rows)
{
  if (d->pool == NULL)
    return 0;
  size_t spare = lls_cuda_plan_spare(d, d->pool->shape.kv_heads);
  size_t units = LLS_CUDA_LARGE / LLS_CUDA_SMALL;
  return 2 * ((n_rows + spare) * sizeof(struct lls_cuda_item) + 16) +
         2 * units * spare * sizeof(struct lls_cuda_merge) + 16;
}

struct lls_cuda_grid lls_cuda_plan_grid(const struct lls_cuda_device *d,
                                        const struct lls_cuda_attention *a, bool any_step)
{
  if (!any_step)
    return d->plans[a->plan].grid;
  uint32_t group = a->heads / a->kv_heads,
           units = (group + LLS_CUDA_SMALL - 1) / LLS_CUDA_SMALL;
  uint32_t spare = lls_cuda_plan_spare(d, a->kv_heads), items = a->n_rows + spare;
  return (struct lls_cuda_grid){
      .small = group <= LLS_CUDA_SMALL ? items : 0,
      .large = group <= LLS_CUDA_SMALL ? 0 : items,
      .merges = spare * units,
  };
}
