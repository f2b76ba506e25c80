/* SPDX-License-Identifier: Apache-2.0 */
/* The size of an attention plan, its grid, and the measures that plan.c and
 * plan_pieces.c share. */
#include "kernels/cuda/ops.h"

struct lls_cuda_span lls_cuda_span_of(const struct lls_cuda_attention *a,
                                      const struct lls_step_sequence *s, uint32_t first,
                                      uint32_t n)
{
  uint32_t position = s->context + first, end = position + n;
  uint32_t tile = lls_cuda_oldest(a, position) / LLS_CUDA_TILE;
  return (struct lls_cuda_span){
      .first_tile = tile,
      .n_tiles = (end + LLS_CUDA_TILE - 1) / LLS_CUDA_TILE - tile,
      .end = end,
  };
}

bool lls_cuda_in_pieces(const struct lls_cuda_attention *a,
                        const struct lls_step_sequence *s)
{
  return a->rank == 0 && s->n_rows * (a->heads / a->kv_heads) <= LLS_CUDA_SMALL;
}

uint32_t lls_cuda_plan_lanes(const struct lls_cuda_device *d, uint32_t group)
{
  uint32_t lanes = d->pool->attention_slots[group] / d->pool->groups[group].kv_heads;
  return lanes > 0 ? lanes : 1;
}

/* Returns the most parts of large items, less the first of each: see choose_parts. */
uint32_t lls_cuda_plan_spare(const struct lls_cuda_device *d, uint32_t kv_heads)
{
  return 2 * (uint32_t)d->properties.multiProcessorCount / kv_heads + 1;
}

static size_t group_bytes(const struct lls_cuda_device *d, uint32_t group,
                          uint32_t n_rows)
{
  uint32_t lanes = lls_cuda_plan_lanes(d, group);
  uint32_t spare = lls_cuda_plan_spare(d, d->pool->groups[group].kv_heads);
  return (n_rows + spare) * sizeof(struct lls_cuda_item) +
         (n_rows + lanes) * sizeof(struct lls_cuda_piece) +
         (lanes + 1) * sizeof(uint32_t) + 3 * 16;
}

size_t lls_cuda_plan_bytes(const struct lls_cuda_device *d, uint32_t n_rows)
{
  size_t most = 0;
  for (uint32_t i = 0; d->pool != NULL && i < lls_pool_groups(&d->pool->shape); i++) {
    size_t bytes = group_bytes(d, i, n_rows);
    most = bytes > most ? bytes : most;
  }
  return most;
}

struct lls_cuda_grid lls_cuda_plan_grid(const struct lls_cuda_device *d,
                                        const struct lls_cuda_attention *a, bool any_step)
{
  struct lls_cuda_grid grid = d->plans[a->plan].grid;
  /* a graph's first use of a kernel must not be while it is captured: with several rows a
   * sequence the run before that has the same kernels */
  if (any_step || (a->several && d->ops->graphs)) {
    uint32_t group = a->heads / a->kv_heads;
    bool small = a->rank == 0 && group <= LLS_CUDA_SMALL;
    bool large = !small || a->several;
    grid = (struct lls_cuda_grid){
        .small = small ? lls_cuda_plan_lanes(d, a->group) : 0,
        .large = large ? a->n_rows + lls_cuda_plan_spare(d, a->kv_heads) : 0,
        .queries = group <= 8 && !a->several ? 8 : 16,
    };
  }
  grid.small *= a->kv_heads;
  grid.large *= a->kv_heads;
  grid.hopper = d->hopper_blocks < grid.large ? d->hopper_blocks : grid.large;
  return grid;
}
