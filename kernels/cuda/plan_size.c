/* SPDX-License-Identifier: Apache-2.0 */
/* How large a plan of attention is, and its grid; plan.c makes it. */
#include "kernels/cuda/ops.h"

/* Rounds of as many blocks as run at once, but the first of them: see choose_grain. */
uint32_t lls_cuda_plan_spare(const struct lls_cuda_device *d, uint32_t kv_heads)
{
  return (LLS_CUDA_MORE_ROUNDS + 1) * d->pool->attention_slots / kv_heads + 1;
}

size_t lls_cuda_plan_bytes(const struct lls_cuda_device *d, uint32_t n_rows)
{
  if (d->pool == NULL)
    return 0;
  size_t spare = lls_cuda_plan_spare(d, d->pool->shape.kv_heads);
  return 2 * ((n_rows + spare) * sizeof(struct lls_cuda_item) + 16) + 16;
}

struct lls_cuda_grid lls_cuda_plan_grid(const struct lls_cuda_device *d,
                                        const struct lls_cuda_attention *a, bool any_step)
{
  struct lls_cuda_grid grid = d->plans[a->plan].grid;
  if (any_step) {
    uint32_t items = a->n_rows + lls_cuda_plan_spare(d, a->kv_heads);
    bool small = a->heads / a->kv_heads <= LLS_CUDA_SMALL;
    grid = (struct lls_cuda_grid){.small = small ? items : 0, .large = small ? 0 : items};
  }
  grid.small *= a->kv_heads;
  grid.large *= a->kv_heads;
  if (grid.small > d->pool->attention_slots)
    grid.small = d->pool->attention_slots;
  grid.hopper = d->hopper_blocks < grid.large ? d->hopper_blocks : grid.large;
  grid.in_turns = d->hopper_turns;
  return grid;
}
