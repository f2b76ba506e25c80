/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that fold all tokens of a sequence into a state of fixed size. Their group keeps
 * one block of each sequence (LLS_GROUP_STATE of llmserve/types.h), in which the state of
 * each layer is f32 numbers at a place of its own.
 */
#ifndef LLS_DEVICE_STATES_H
#define LLS_DEVICE_STATES_H

#include <stdbool.h>
#include <stdint.h>

#define LLS_NO_STATE  UINT32_MAX
#define LLS_NO_COLUMN UINT32_MAX

/* The largest that devices compute. */
#define LLS_MAX_CONV_WIDTH 8
#define LLS_MAX_KEY_DIM    256

/* Consecutive rows of one sequence, which begin with one state and leave another. */
struct lls_state_span {
  uint32_t source; /* block of the state before the rows; NO_STATE: all zeros */
  uint32_t target; /* block of the state after them; may be `source`; NO_STATE: no
                      operation reads it, as the rows are guesses */
  uint32_t first_row, n_rows;
  uint32_t turn;  /* spans of a sequence are computed in turn, from 0 on */
  uint32_t spare; /* its number among those with target NO_STATE */
};

/*
 * A short convolution over the tokens of each channel alone:
 *
 *   y[t] = act(bias + sum over j of weight[j] u[t - width + 1 + j]) after[t]
 *   u[t] = x[t] before[t]
 *
 * Rows have `columns` numbers, of which `channels` from a column on are x, before and
 * after; without one of the factors its column is LLS_NO_COLUMN. The state is the last
 * width - 1 u's.
 */
struct lls_conv_shape {
  uint64_t at; /* bytes before the layer's state in a block */
  uint32_t channels, width;
  bool silu;           /* act is x sigmoid(x), otherwise nothing */
  const float *weight; /* (width, channels) device memory */
  const float *bias;   /* (channels) device memory, or NULL */
  uint32_t columns, x, before, after;
};

/*
 * The gated delta net (arXiv 2412.06464): each value head keeps a matrix of its key
 * head's key_dim rows and value_dim columns. q and k are scaled to a length of 1.
 */
struct lls_delta_shape {
  uint64_t at;
  uint32_t key_heads, value_heads, key_dim, value_dim;
  /* value head h has key head h % key_heads; otherwise h / (value_heads / key_heads) */
  bool tiled;
  float epsilon;               /* added to squared lengths of q and k */
  const float *rate, *dt_bias; /* (value_heads) device memory */
  uint32_t columns;            /* numbers of a row, which begins with q, k and v */
};

/*
 * The state space of Mamba-2 (arXiv 2405.21060): each head keeps a matrix of state_dim
 * rows and head_dim columns. Rows begin with x, then B and C of each group.
 */
struct lls_space_shape {
  uint64_t at;
  uint32_t heads, head_dim, groups, state_dim; /* head h has group h / (heads / groups) */
  float dt_min, dt_max;                        /* limits of the time step */
  const float *rate, *dt_bias, *skip;          /* (heads) device memory */
  uint32_t columns;                            /* of rows */
};

/* y = rms_norm(y) weight silu(gate), for each of `groups` times `columns` numbers; or
 * with gate_first rms_norm(y silu(gate)) weight. */
struct lls_gated_norm_shape {
  uint32_t groups, columns;
  float epsilon;
  /* Device memory: (columns), each_weight: (groups columns); NULL: y silu(gate) alone */
  const float *weight;
  bool each_weight, gate_first;
  uint32_t gate_columns, gate; /* numbers of a row, the gate's first one */
};

#endif
