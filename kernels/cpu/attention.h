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

#define LLS_HEAD_DIM_MAX      256
#define LLS_ATTENTION_QUERIES 128 /* most queries of a call */

/* One of K and V of one head of one layer, as the block table scatters it. */
struct lls_kv_list {
  const char *base; /* block 0's slot 0 of this layer and head */
  size_t unit_bytes, slot_bytes;
  /* The same of INT8 blocks, whose slots have head_dim bytes; NULL: there are none. */
  const char *int8;
  size_t int8_bytes;      /* half a unit */
  const uint16_t *scales; /* (2, head_dim) of half 0: steps, least numbers */
  size_t scale_stride;    /* numbers, from half to half */
  uint32_t head_dim;
  uint32_t block_tokens;
  const struct lls_block_entry *entries; /* (n_entries) */
  uint32_t n_entries;
};

struct lls_attention_task {
  const float *q;    /* row r, head g of the group: q + r * q_stride + g * head_dim */
  size_t q_stride;   /* floats */
  uint32_t n_rows;   /* row r has position first_position + r */
  uint32_t group;    /* q heads of this KV head; n_rows * group <= QUERIES */
  uint32_t head_dim; /* at most LLS_HEAD_DIM_MAX */
  uint32_t first_position;
  float scale;
  float soft_cap;  /* 0 = none */
  uint32_t window; /* 0 = none */
  bool bf16;       /* the cache's element, else f32 */
  struct lls_kv_list k, v;
};

/* State of every query (row r, head g at index r * group + g) over a token range. */
struct lls_attention_state {
  float *max;    /* (queries) largest score x log2 e, -FLT_MAX if no token was visible */
  float *sum;    /* (queries) of weights 2^(score log2 e - max) */
  float *values; /* (queries, lls_attention_stride) of weight x v */
};

/* Floats from one query's values to the next: whole vectors of any level. */
static inline uint32_t lls_attention_stride(uint32_t head_dim)
{
  return (head_dim + 15) & ~15u;
}

/* Working memory of one call: a tile of K, one of V and lists of addresses. */
#define LLS_ATTENTION_SCRATCH ((size_t)384 << 10)

struct lls_cpu_attention_kernels {
  /* head_dim a multiple of 8. The state over tokens [begin, end), begin a multiple of 64,
   * cut by each row's causal limit and window. scratch (LLS_ATTENTION_SCRATCH), 64-byte
   * aligned. */
  void (*attend)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                 const struct lls_attention_state *out, void *scratch);
  /* The same for a cache of bf16. */
  void (*attend_bf16)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                      const struct lls_attention_state *out, void *scratch);
  /* The same for any head_dim; always the plain one. */
  void (*attend_any)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                     const struct lls_attention_state *out, void *scratch);
};

void lls_cpu_attention_generic(struct lls_cpu_attention_kernels *);
#ifdef __x86_64__
void lls_cpu_attention_avx2(struct lls_cpu_attention_kernels *);
void lls_cpu_attention_avx512(struct lls_cpu_attention_kernels *);
void lls_cpu_attention_amx(struct lls_cpu_attention_kernels *);
#endif

#endif
