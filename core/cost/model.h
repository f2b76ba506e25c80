/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a step, from a device's profile and a model's shape. A step is described
 * sequence by sequence, as tokens computed after tokens cached; the time is
 *
 *   T =  o_step + layers o_layer + S o_sequence + R o_row + L o_token     fixed costs
 *      + S 2 y / B_c + R z / F_a                                          states
 *      + M f(R) + M' f(L)                                                 products
 *      + sum over chunks of max(4 l q pairs / F_a, (x + c) b / B_c)       attention
 *      + max(sum over decodes of (c + 1) b / B_c + tail s, s),            and decodes
 *        s = (longest + 1) b / (B_c one_sequence)                         its straggler
 *      + E m(R) f(R a / (x m(R)))                                         experts
 *      + K f(H)                                                           restoring X
 *      + K f(A rows) + max(4 l d h A / F_h - (A tokens) b / B_c, 0)       absorbed X
 *      + 2 layers (latency + 2 (N - 1) / N  R d e / B_peer)               all-reduce
 *      + l (3 latency + 2 (N - 1) / N (A rows h d + A h) e / B_peer)      of absorbed X
 *
 * over N ranks that divide products, heads and cache; all terms are per rank. S
 * sequences; R rows (tokens computed); L rows whose token is sampled; H tokens restored
 * from hidden form; x tokens of a chunk after c cached ones form pairs = x c + x (x +
 * 1) / 2; l layers of width d with e bytes per element, with q = heads head_dim (latent
 * attention: the mean of what a query and what its output has, absorbed) and b bytes of
 * keys and values per token. M are the weights that all rows use; M' those that only
 * sampled rows use: the head, and the part of the last layer after attention
 * (core/engine/forward.c); K the weights of keys and values, divided by the profile's
 * factor for restoring.
 *
 * For layers with a sliding window w a context counts as at most w tokens: c and pairs
 * are means over the layers with a window and those without.
 *
 * A are pairs of a row and a token whose X it attends to without K and V
 * (core/engine/hidden.c): d elements twice for each of h heads. X is read twice, as K
 * and V would be, and is counted as if it were K and V; K's weights are multiplied once
 * more, for the queries and the values. Each rank has a share of X's columns: queries
 * and sums are exchanged with the other ranks, each of X's size for each of h heads,
 * and scores are summed over ranks (kernels/cpu/absorb.c).
 *
 * Layers that keep a state have no keys and values: l counts the others. y are the bytes
 * of a sequence's states, read and written once in a step; z the operations that fold a
 * row into them.
 *
 * E are the weights of all x experts of the mixtures, of which a row uses a in each
 * layer. R rows that choose uniformly use the part m(R) = 1 - (1 - a / x)^R of the
 * experts, each with R a / (x m(R)) rows. All rows count in the last layer, too.
 *
 * f(R) is the time of one weight at R rows. Measured profiles contain it as a curve;
 * otherwise it is the roofline (Williams et al., CACM 2009)
 *
 *   f(R) = max(bytes / (bandwidth weights), 2 R / (matrix peak matrix)).
 *
 * A pipeline of stages, each with N ranks and its part of the layers, processes as many
 * parts of a step at once as there are stages or sequences, whichever is less: parts of
 * equal size, as token budgets produce them (Sarathi-Serve, OSDI 2024, section 4.3).
 * Each part passes through all layers; when it leaves the pipeline its next step
 * follows at once. So a step takes as long as one part, plus the transfer of its rows
 * from stage to stage:
 *
 *   (stages - 1) (latency + R d e / B_peer)
 *
 * The straggler: kernels that assign a sequence's heads to workers finish when the
 * longest sequence does. If all shorter sequences are read meanwhile, the larger of the
 * two times counts: tail = 0. If the longest one happens to begin last, both times add
 * up: tail = 1, which bounds the time in any order (Graham, 1969), and is the form in
 * AlignedServe's section 3: t = t_mlp + c1 sum P + c2 max P.
 */
#ifndef LLS_COST_MODEL_H
#define LLS_COST_MODEL_H

#include "core/cost/profile.h"
#include "core/model/model_config.h"

/* A model on some number of ranks; numbers are of the whole model unless stated
 * otherwise. */
struct lls_cost_shape {
  double ranks, layers, hidden;
  double stages;          /* one after lls_cost_shape_init */
  double all_weights;     /* M: weights that every row is multiplied with */
  double picked_weights;  /* M': weights that sampled rows are multiplied with */
  double kv_weights;      /* K: weights that produce keys and values */
  double expert_weights;  /* E: weights of all experts of mixtures */
  double experts, active; /* experts of a layer; experts that a row uses */
  double weight_bytes;    /* bytes of one weight */
  double pair_flops;      /* 4 l q: for one query with one key and value */
  double absorb_flops;    /* 4 l d h: for one row with one token's X */
  double score_bytes;     /* l h e: a pair's scores sent between two ranks */
  double token_bytes;     /* b */
  double state_bytes;     /* y */
  double fold_flops;      /* z */
  double row_bytes;       /* d e: a row sent between two ranks */
  double sums;            /* all-reduces per layer: one if branches are parallel */
  double window;          /* sliding window in tokens, the widest of the layers */
  double windowed;        /* the part of the layers that have a window */
};

/* cache_bytes: bytes of one cached element. */
void lls_cost_shape_init(struct lls_cost_shape *, const struct lls_model_config *,
                         double weight_bytes, double cache_bytes, uint32_t ranks);
/* Returns the bytes of all matrices, over all ranks. */
double lls_cost_weight_bytes(const struct lls_cost_shape *);

/* The work of a step; zeroed, then filled by lls_cost_add. */
struct lls_cost_load {
  double sequences, rows, drawn, restored;
  double absorbed, absorbed_rows,
      absorbed_tokens;    /* A; its rows; the tokens that these read */
  double chunk_ns;        /* attention of chunks */
  double cached, longest; /* tokens that decodes read */
};

/* A profile combined with a shape: every factor of T, per rank. */
struct lls_cost_rates {
  double fixed_ns;                                /* o_step + layers o_layer */
  double sequence_ns, row_ns, token_ns;           /* o_ */
  double all_weights, picked_weights, kv_weights; /* millions of weights per rank */
  double absorb_weights;                          /* kv_weights not divided by the
                                                   * factor */
  double expert_weights, experts, active;         /* millions of weights per rank;
                                                   * counts */
  double read_ns, multiply_ns; /* roofline, per million weights: to read them; per row */
  struct lls_profile_curve curve;
  double pair_ns, cached_ns, longest_ns, tail_ns; /* per pair; per cached token read */
  double absorb_ns;                /* per pair of A; 0 = X is always restored */
  double reduce_ns, reduce_row_ns; /* collectives of a step; per row */
  /* The collectives of absorbed X: per step, per row, and per pair of A. */
  double absorb_reduce_ns, absorb_row_ns, score_ns;
  double stages, hop_ns, hop_row_ns; /* all transfers between stages; per row */
  double host_byte_ns, peer_byte_ns, device_byte_ns, host_latency_ns, peer_latency_ns;
  double window, windowed;
  double error; /* fraction added to a step's time, for deliberately wrong estimates */
};

void lls_cost_rates_init(struct lls_cost_rates *, const struct lls_profile *,
                         const struct lls_cost_shape *);

/* Adds a sequence that computes `tokens` after `context` cached ones. */
void lls_cost_add(const struct lls_cost_rates *, struct lls_cost_load *, uint32_t tokens,
                  uint32_t context);
/* Marks a sequence that was already added as absorbed, in hidden form. */
void lls_cost_absorb(struct lls_cost_load *, uint32_t tokens, uint32_t context);
double lls_cost_step_ns(const struct lls_cost_rates *, const struct lls_cost_load *);

/* Returns the time of `n` transfers of `bytes` in total; link: enum lls_link. LLS_NEVER
 * if the profile has no such link. */
double lls_cost_copy_ns(const struct lls_cost_rates *, uint32_t link, double bytes,
                        double n);

#endif
