/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attention kernel: some rows of one sequence and one KV head against a range of
 * its tokens. The q heads that share the KV head are rows too (a "query" is one row's
 * vector of one q head), so that a decode with 8 q heads a KV head is a product with
 * 8 queries, and a prefill the same product with more of them.
 *
 * Online softmax (Milakov and Gimelshein, 2018; FlashAttention, Dao et al., 2022,
 * algorithm 1): the result is a state (max, sum, weighted values) for each query that can
 * be merged with that of another token range (attention.c).
 */
#ifndef LLS_CPU_ATTENTION_H
#define LLS_CPU_ATTENTION_H

#include "core/device/device.h"
#include "kernels/cpu/isa.h"

#define LLS_HEAD_DIM_MAX      704 /* a latent of 512, 64 rotated, 128 of an index */
#define LLS_ATTENTION_QUERIES 128 /* most queries of a call */

/* K or V of one KV head of one layer: the blocks that a block table lists. */
struct lls_kv_list {
  const char *base; /* slot 0 of this layer and head, of the block at unit 0 */
  size_t unit_bytes, slot_bytes;
  /* slot 0 of block 0 for INT8 blocks, whose slots have head_dim bytes; NULL: none
   * exist */
  const char *int8;
  const char *scales; /* of the block at unit 0: (2, head_dim) steps, then least values */
  uint32_t head_dim;
  uint32_t block_tokens;
  const struct lls_block_entry *entries; /* (n_entries) */
  uint32_t n_entries;
  /* Ascending tokens, or NULL: token i of the list is chosen[i] of the sequence. */
  const uint32_t *chosen;
};

struct lls_attention_task {
  /* queries; row r, head g of the group: q + r * q_stride + g * head_dim */
  const float *q;
  size_t q_stride;   /* floats from row to row of q */
  uint32_t n_rows;   /* row r has position first_position + r */
  uint32_t group;    /* q heads of this KV head; n_rows * group <= QUERIES */
  uint32_t head_dim; /* head size, at most LLS_HEAD_DIM_MAX */
  uint32_t first_position;
  float scale;
  float soft_cap;      /* 0 = none */
  const float *slopes; /* (group) of ALiBi, or NULL */
  /* (group, relative_columns) or NULL: head g adds relative[token - r] of its numbers to
   * row r's score of a token; without slopes and soft_cap */
  const float *relative;
  size_t relative_columns;
  uint32_t window; /* 0 = none */
  uint32_t oldest; /* no row sees a token before this one */
  bool bf16;       /* the cache holds bf16, else f32 */
  struct lls_kv_list k, v;
};

/* State of every query (row r, head g at index r * group + g) over a token range. */
struct lls_attention_state {
  float *max;    /* (queries) largest score x log2 e, -FLT_MAX if no token was visible */
  float *sum;    /* (queries) sum of the weights 2^(score log2 e - max) */
  float *values; /* (queries, lls_attention_stride) sum of weight x v */
};

/* attention.c: K or V of a head of a layer, as a sequence's blocks have it. */
struct lls_cpu_device;
struct lls_kv_list lls_cpu_kv_list(const struct lls_cpu_device *,
                                   const struct lls_attention_shape *, uint32_t layer,
                                   uint32_t head, const struct lls_step_sequence *,
                                   bool is_v);

/* Floats from one query's values to the next: a multiple of every level's vector. */
static inline uint32_t lls_attention_stride(uint32_t head_dim)
{
  return (head_dim + 15) & ~15u;
}

/* Working memory of one call: a tile of K, one of V and lists of addresses. */
#define LLS_ATTENTION_SCRATCH ((size_t)1 << 20)

struct lls_cpu_attention_kernels {
  /* Computes the state over tokens [begin, end), masked by each row's causal limit and
   * window. head_dim is a multiple of 8, begin of 64. scratch (LLS_ATTENTION_SCRATCH)
   * is 64-byte aligned. */
  void (*attend)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                 const struct lls_attention_state *out, void *scratch);
  /* Like attend, but for a cache of bf16. */
  void (*attend_bf16)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                      const struct lls_attention_state *out, void *scratch);
  /* Like attend, but for any head_dim; every level has the generic version. */
  void (*attend_any)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                     const struct lls_attention_state *out, void *scratch);
};

#endif
