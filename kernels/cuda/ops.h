/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations as records. The vtable's functions record their parameters, and the list
 * runs when its results are needed. This has three advantages:
 *
 *   - neighbours become one kernel: rope and cache_write, a linear layer and its ReLU
 *   - a decode step whose list was seen before is launched as one CUDA graph: everything
 *     that differs between two such steps (tokens, tables, the plan of attention) is
 *     data at fixed places in device memory
 *   - the number of rows is padded, so that few lists exist: 1, 2, 4, then multiples of 8
 *
 * Padding rows have arbitrary contents; kernels that read the step skip them.
 */
#ifndef LLS_CUDA_OPS_H
#define LLS_CUDA_OPS_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ranks.h"
#include "kernels/cuda/recurrent.h"

#define LLS_CUDA_MOST_PADDING 7

static inline uint32_t lls_cuda_padded(uint32_t n_rows)
{
  if (n_rows <= 2)
    return n_rows;
  return n_rows <= 4 ? 4 : (n_rows + 7) / 8 * 8;
}

enum lls_cuda_op_kind {
  LLS_CUDA_EMBED,
  LLS_CUDA_NORM,
  LLS_CUDA_LINEAR,
  LLS_CUDA_ACTIVATE,
  LLS_CUDA_ADD,
  LLS_CUDA_ROPE_WRITE,
  LLS_CUDA_ATTENTION,
  LLS_CUDA_ROUTE,
  LLS_CUDA_LINEAR_EXPERTS,
  LLS_CUDA_CODES_EXPERTS,
  LLS_CUDA_COMBINE,
  LLS_CUDA_CAP,
  LLS_CUDA_GATHER,
  LLS_CUDA_CHANGE,
  LLS_CUDA_LATENT,
  LLS_CUDA_ALL_REDUCE,
  LLS_CUDA_GATHER_COLUMNS,
  LLS_CUDA_HIDDEN_WRITE,
  LLS_CUDA_CONV,
  LLS_CUDA_FOLD,
  LLS_CUDA_NORM_GATED,
  LLS_CUDA_GATE_COLUMNS,
  LLS_CUDA_ADAPT,
  LLS_CUDA_MIX_STREAMS,
  LLS_CUDA_MATCH_SIZE,
  LLS_CUDA_CUT_GATES,
  LLS_CUDA_RESTORE, /* restores K and V in several kernels; never in a graph */
};

struct lls_cuda_hidden_write {
  uint32_t layer, n_rows;
  /* elements from row to row of h; other ranks' columns are between them */
  uint32_t columns;
  const void *h;
};

struct lls_cuda_restore_all { /* restores the step's tokens */
  uint32_t layer, pairs;
  const struct lls_weight *qkv;
};

/* A record. Unused fields and padding are zero, since records are compared byte by
 * byte. */
struct lls_cuda_op {
  enum lls_cuda_op_kind kind;
  const struct lls_pool *pool;    /* for operations that use the cache */
  const float *inverse_frequency; /* for ROPE_WRITE with pairs; host memory */
  float attention_factor;
  /* 1: compute the angles first; 0: an earlier record of the step does */
  uint32_t make_angles;
  union {
    struct lls_cuda_embed embed;
    struct lls_cuda_norm norm;
    struct lls_cuda_linear linear;
    struct lls_cuda_activate activate;
    struct lls_cuda_add add;
    struct lls_cuda_rope_write rope_write;
    struct lls_cuda_attention attention;
    struct lls_cuda_route route;
    struct lls_cuda_linear_experts linear_experts;
    struct lls_cuda_codes_product codes_experts;
    struct lls_cuda_combine combine;
    struct lls_cuda_cap cap;
    struct lls_cuda_gather gather;
    struct lls_cuda_change change;
    struct lls_cuda_latent latent;
    struct lls_cuda_all_reduce all_reduce;
    struct lls_cuda_gather_columns gather_columns;
    struct lls_cuda_hidden_write hidden_write;
    struct lls_cuda_conv conv;
    struct lls_cuda_fold fold;
    struct lls_cuda_norm_gated norm_gated;
    struct lls_cuda_gate_columns gate_columns;
    struct lls_cuda_adapt adapt;
    struct lls_cuda_mix_streams mix_streams;
    struct lls_cuda_match_size match_size;
    struct lls_cuda_cut_gates cut_gates;
    struct lls_cuda_restore_all restore;
  };
};

/* 128 layers of 12 operations; a longer list runs in pieces */
#define LLS_CUDA_MAX_OPS    2048
#define LLS_CUDA_MAX_GRAPHS 64

struct lls_cuda_graph {
  struct lls_cuda_op *ops; /* (n_ops) */
  uint32_t n_ops;
  cudaGraphExec_t exec; /* NULL: the list was seen once */
};

struct lls_cuda_ops { /* [step] */
  struct lls_cuda_op list[LLS_CUDA_MAX_OPS];
  uint32_t n;
  bool graphs;    /* this step's lists may become graphs */
  bool in_pieces; /* the list was too long: the rest is not a whole step */
  struct lls_cuda_graph graph[LLS_CUDA_MAX_GRAPHS];
  uint32_t n_graphs, oldest;
};

int lls_cuda_ops_create(struct lls_cuda_ops **, struct lls_error *err);
void lls_cuda_ops_destroy(struct lls_cuda_ops *);
/* Clears the records of an earlier step. graphs: the step's lists may become graphs. */
void lls_cuda_ops_begin(struct lls_cuda_device *, bool graphs);
/* Discards all graphs. Called when an address in them is no longer valid, when the
 * contents behind an address in the records (a pool, a weight, frequencies) change, or
 * when a communicator in them ends. */
void lls_cuda_ops_forget(struct lls_cuda_device *);
/* Returns the graph of the present list; NULL if the list is new. */
struct lls_cuda_graph *lls_cuda_graph_find(struct lls_cuda_ops *);
/* Remembers that the list was seen once. Without memory it stays unknown. */
void lls_cuda_graph_remember(struct lls_cuda_ops *);
void lls_cuda_ops_flush(struct lls_cuda_device *);

/* Adds a record of a kind, filled with zeros; never returns NULL. */
struct lls_cuda_op *lls_cuda_op_add(struct lls_cuda_device *, enum lls_cuda_op_kind);
/* Returns the last record; NULL if there is none. */
struct lls_cuda_op *lls_cuda_op_last(struct lls_cuda_device *);

static inline bool lls_cuda_same_rope(const struct lls_rope_shape *a,
                                      const struct lls_rope_shape *b)
{
  return a->inverse_frequency == b->inverse_frequency &&
         a->rotary_dims == b->rotary_dims && a->attention_factor == b->attention_factor;
}

/* run.c: puts an operation on the stream. `recording`: grids must fit any step with
 * these records. */
void lls_cuda_op_run(struct lls_cuda_device *, const struct lls_cuda_op *,
                     bool recording);

/* The vtable's operations; vtable.c. */
extern const struct lls_device_ops lls_cuda_vtable;

#endif
