/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that fold all tokens before into one state of the sequence: the short
 * convolution (LFM2, and in front of the other two), the gated delta net (Qwen3-Next,
 * Qwen3.5) and the state space of Mamba-2.
 *
 * All of them are computed as the papers' recurrences, token after token, at any number
 * of rows: no chunks. A column of a state depends on no other column, so a kernel keeps
 * a block of columns in the L1 cache and takes all rows of a span over it. A vector
 * holds columns, thus no sum crosses lanes. The chunked forms of the papers serve matrix
 * units; with vectors they save 1 of 4 instructions at most (delta net, 3 of 4 + the
 * work inside a chunk) and their rounding depends on where a chunk begins. Here a row's
 * result does not depend on where its span begins or ends: any cut of a prompt gives the
 * same bits at a given level, with any number of threads.
 *
 * Rows and states are f32. `rate` and similar vectors are read as the model files have
 * them after the conversion named here.
 */
#ifndef LLS_CPU_RECURRENT_H
#define LLS_CPU_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"

struct lls_cpu_device;

/* most key_dim and state_dim of a layer, and most width of a convolution */
#define LLS_RECURRENT_DIM 256
#define LLS_CONV_WIDTH    8

/* Rows of a step; row r of the step is at + r * stride. */
struct lls_row_input {
  const float *at;
  size_t stride;
};
struct lls_row_output {
  float *at;
  size_t stride;
};

/* Consecutive rows of one sequence. */
struct lls_recurrent_span {
  uint32_t first_row, n_rows; /* in the step */
  const float *from;          /* the layer's state before the rows; NULL: all zeros */
  float *to;                  /* the state after them; may be `from` */
};

/*
 * y[t] = act(bias + sum over j of weight[j] u[t - width + 1 + j]), each channel alone,
 * with u = x, or x before; then y[t] *= after[t]. The state is (width - 1, channels): the
 * newest u, oldest first. y may be x with the same stride, or `before` or `after`.
 */
struct lls_short_conv {
  uint32_t channels, width; /* width 2..LLS_CONV_WIDTH */
  bool silu;                /* act is x sigmoid(x); otherwise act(x) = x */
  const float *weight;      /* (width, channels): [width - 1] is for the row itself */
  const float *bias;        /* (channels), or NULL */
  struct lls_row_input x, before, after; /* (rows, channels); at = NULL: no factor */
  struct lls_row_output y;
};

/*
 * Gated delta rule (Yang, Kautz, Hatamizadeh: Gated Delta Networks, equation 10, with the
 * gates of Qwen3-Next), for each value head, with its key head's k and q:
 *
 *   k = k / sqrt(|k|^2 + epsilon), q = q / sqrt(|q|^2 + epsilon) scale
 *   g = exp(rate softplus(a + dt_bias)), beta = sigmoid(b)
 *   S = g S + k (beta (v - k^T g S))
 *   out = q^T S
 *
 * The state is (value_heads, key_dim, value_dim).
 */
struct lls_gated_delta {
  uint32_t key_heads, value_heads, key_dim, value_dim; /* key_dim: a multiple of 4 */
  /* Value head h has key head h % key_heads (GGUF); otherwise it has
   * h / (value_heads / key_heads) (transformers). */
  bool tiled;
  float epsilon;                /* 1e-6 in Qwen3-Next */
  float scale;                  /* key_dim^-0.5 */
  struct lls_row_input q, k, v; /* (rows, heads, dim) */
  struct lls_row_input a, b;    /* (rows, value_heads) */
  const float *rate, *dt_bias;  /* (value_heads) rate is -exp(A_log) */
  struct lls_row_output out;    /* (rows, value_heads, value_dim) */
};

/*
 * State space of Mamba-2 (Dao, Gu: Transformers are SSMs, equation 16 in its discrete
 * form), for each head, with B and C of its group:
 *
 *   dt = min(max(softplus(dt + dt_bias), dt_min), dt_max)
 *   S = exp(rate dt) S + B (dt x)^T
 *   out = C^T S + d x
 *
 * The state is (heads, state_dim, head_dim): transformers' is (heads, head_dim,
 * state_dim).
 */
struct lls_state_space {
  uint32_t heads, head_dim, groups, state_dim; /* head h has group h / (heads / groups) */
  float dt_min, dt_max;                        /* 0 and INFINITY: no limits */
  struct lls_row_input x, b, c, dt; /* (rows, heads, head_dim), groups, groups, heads */
  const float *rate, *dt_bias;      /* (heads) rate is -exp(A_log) */
  const float *d;                   /* (heads), or NULL */
  struct lls_row_output out;        /* (rows, heads, head_dim) */
};

/*
 * The norm behind both, over each group of columns: y = rms_norm(x) weight silu(gate), or
 * with gate_first rms_norm(x silu(gate)) weight. y may be x.
 */
struct lls_gated_norm {
  uint32_t groups, columns; /* columns of a group */
  bool gate_first;          /* Mamba-2; otherwise the gated delta net's order */
  float epsilon;
  const float *weight;  /* (columns) for all groups, or (groups, columns) */
  size_t weight_stride; /* 0, or columns */
  struct lls_row_input x, gate;
  struct lls_row_output y;
};

/* One thread's work. Columns and channels [begin, end). */
struct lls_cpu_recurrent_kernels {
  void (*conv)(const struct lls_short_conv *, const struct lls_recurrent_span *,
               size_t begin, size_t end);
  void (*delta)(const struct lls_gated_delta *, const struct lls_recurrent_span *,
                uint32_t head, size_t begin, size_t end);
  void (*space)(const struct lls_state_space *, const struct lls_recurrent_span *,
                uint32_t head, size_t begin, size_t end);
  void (*norm)(const struct lls_gated_norm *, uint32_t row);
};

static inline uint32_t lls_delta_key_head(const struct lls_gated_delta *d, uint32_t head)
{
  return d->tiled ? head % d->key_heads : head / (d->value_heads / d->key_heads);
}

/* Floats of a sequence's state. */
static inline size_t lls_conv_floats(const struct lls_short_conv *c)
{
  return (size_t)(c->width - 1) * c->channels;
}
static inline size_t lls_delta_floats(const struct lls_gated_delta *d)
{
  return (size_t)d->value_heads * d->key_dim * d->value_dim;
}
static inline size_t lls_space_floats(const struct lls_state_space *s)
{
  return (size_t)s->heads * s->state_dim * s->head_dim;
}

/* recurrent.c: columns [begin, end) of a head's state of rows and columns become those
 * before the span. Returns the head's state. */
float *lls_cpu_begin_state(const struct lls_recurrent_span *, size_t head, size_t rows,
                           size_t columns, size_t begin, size_t end);

/* recurrent.c: on all threads of the device; [step], not inside a run. Spans of one
 * sequence follow each other in their order, each with the state that the one before
 * wrote as its `from` (a step that keeps a state in its middle). */
void lls_cpu_short_conv(const struct lls_cpu_device *, const struct lls_short_conv *,
                        const struct lls_recurrent_span *, size_t n_spans);
void lls_cpu_gated_delta(const struct lls_cpu_device *, const struct lls_gated_delta *,
                         const struct lls_recurrent_span *, size_t n_spans);
void lls_cpu_state_space(const struct lls_cpu_device *, const struct lls_state_space *,
                         const struct lls_recurrent_span *, size_t n_spans);
void lls_cpu_gated_norm(const struct lls_cpu_device *, const struct lls_gated_norm *,
                        uint32_t n_rows);

#endif
