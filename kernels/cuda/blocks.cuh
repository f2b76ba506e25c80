/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a token's place in the block tables: any block size, part-filled blocks,
 * both directions. */
#ifndef LLS_CUDA_BLOCKS_CUH
#define LLS_CUDA_BLOCKS_CUH

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

/* The list of one sequence as K, V or X of one KV head of one layer has it. */
struct kv_list {
  const lls_block_entry *entries;
  uint32_t n, block_tokens, head_dim;
  bool whole;     /* entries are whole blocks in order, filled from slot 0 on */
  uint32_t begin; /* the first token in the list */
  uint64_t head; /* elements from the pool's beginning to this layer and head of unit 0 */
  uint64_t unit; /* elements from unit to unit */
  uint32_t is_v;
};

static __device__ __forceinline__ kv_list make_list(const lls_cuda_pool &pool,
                                                    const lls_block_entry *entries,
                                                    uint32_t n, bool whole, bool scratch,
                                                    uint32_t layer, uint32_t kv_head,
                                                    bool is_v)
{
  uint64_t head = (uint64_t)pool.block_tokens * pool.head_dim;
  uint64_t heads = scratch ? pool.kv_heads : (uint64_t)pool.layers * pool.kv_heads;
  uint64_t before = scratch ? 0 : (uint64_t)layer * pool.kv_heads;
  uint64_t begin =
      (scratch ? pool.scratch_at : 0) + ((is_v ? heads : 0) + before + kv_head) * head;
  uint32_t first_token = n > 0 ? entries[0].first_token : 0;
  return {entries,
          n,
          pool.block_tokens,
          pool.head_dim,
          whole,
          first_token,
          begin,
          scratch ? pool.sides * heads * head : pool.unit,
          is_v ? 1u : 0u};
}

static __device__ __forceinline__ kv_list k_list(const lls_cuda_step *step,
                                                 const lls_cuda_sequence &s,
                                                 const lls_cuda_pool &pool,
                                                 uint32_t layer, uint32_t kv_head)
{
  return make_list(pool, step->entries + s.kv_first, s.kv_count, s.kv_whole != 0,
                   s.scratch != 0, layer, kv_head, false);
}

static __device__ __forceinline__ kv_list v_list(const lls_cuda_step *step,
                                                 const lls_cuda_sequence &s,
                                                 const lls_cuda_pool &pool,
                                                 uint32_t layer, uint32_t kv_head)
{
  return make_list(pool, step->entries + s.kv_first, s.kv_count, s.kv_whole != 0,
                   s.scratch != 0, layer, kv_head, pool.sides == 2);
}

/* Returns the list of X, which is split like K: KV head h has columns [h head_dim, (h +
 * 1) head_dim). */
static __device__ __forceinline__ kv_list x_list(const lls_cuda_step *step,
                                                 const lls_cuda_sequence &s,
                                                 const lls_cuda_pool &pool,
                                                 uint32_t layer)
{
  return make_list(pool, step->entries + s.x_first, s.x_count, s.x_whole != 0, false,
                   layer, 0, false);
}

/* Returns the entry that holds a token; the token must not be before the list's
 * first. */
static __device__ __forceinline__ const lls_block_entry &find_entry(const kv_list &list,
                                                                    uint32_t token)
{
  if (list.whole)
    return list.entries[(token - list.begin) / list.block_tokens];
  uint32_t low = 0, high = list.n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (list.entries[middle].first_token <= token)
      low = middle;
    else
      high = middle;
  }
  return list.entries[low];
}

/* Elements from a head's beginning to a token's vector. */
static __device__ __forceinline__ uint64_t slot_at(const kv_list &list,
                                                   const lls_block_entry &e,
                                                   uint32_t token)
{
  uint32_t index = token - e.first_token;
  uint32_t slot =
      e.direction == LLS_LEFT_TO_RIGHT ? index : list.block_tokens - 1 - index;
  return (uint64_t)slot * list.head_dim;
}

/* Elements from the pool's beginning to a token's vector, in a list without int8 blocks.
 */
static __device__ __forceinline__ uint64_t token_at(const kv_list &list,
                                                    const lls_block_entry &e,
                                                    uint32_t token)
{
  return e.block * list.unit + list.head + slot_at(list, e, token);
}

static __device__ __forceinline__ uint64_t find_token(const kv_list &list, uint32_t token)
{
  return token_at(list, find_entry(list, token), token);
}

#define NOT_INT8 UINT32_MAX

struct token_place {
  uint64_t at;   /* as from token_at; in bytes if the token is in an int8 block */
  uint32_t half; /* an int8 block's number, twice, plus 1 for V; or NOT_INT8 */
};

/* Returns a token's place in any list. */
static __device__ __forceinline__ token_place place_at(const lls_cuda_pool &pool,
                                                       const kv_list &list,
                                                       const lls_block_entry &e,
                                                       uint32_t token)
{
  bool int8 = e.form == LLS_FORM_INT8;
  uint64_t block = e.block * list.unit;
  if (int8)
    block *= pool.element == LLS_F32 ? 4 : 2;
  return {block + list.head + slot_at(list, e, token),
          int8 ? 2 * e.block + list.is_v : NOT_INT8};
}

static __device__ __forceinline__ token_place find_place(const lls_cuda_pool &pool,
                                                         const kv_list &list,
                                                         uint32_t token)
{
  return place_at(pool, list, find_entry(list, token), token);
}

/* Returns the scales (2, head_dim) of one half, K's or V's, of an int8 block for a layer
 * and KV head. */
static __device__ __forceinline__ const uint16_t *
find_scales(const lls_cuda_pool &pool, uint32_t layer, uint32_t kv_head, uint32_t half)
{
  size_t heads = (size_t)pool.layers * pool.kv_heads, hd = pool.head_dim;
  size_t head = half % 2 * heads + (size_t)layer * pool.kv_heads + kv_head;
  const char *block =
      (const char *)pool.data + half / 2 * pool.unit * (pool.element == LLS_F32 ? 4 : 2);
  return (const uint16_t *)(block + pool.sides * heads * pool.block_tokens * hd) +
         head * 2 * hd;
}

#endif
