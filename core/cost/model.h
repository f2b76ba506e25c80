/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a step takes, from a device's profile and a model's shape. A step is described
 * sequence by sequence, as tokens computed after tokens cached; the time is
 *
 *   T =  o_step + layers o_layer + S o_sequence + R o_row + L o_token     fixed costs
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
 * over N ranks that share out products, heads and cache; all of it per rank. S sequences,
 * R rows (tokens computed), L rows whose token is drawn, H tokens restored from hidden
 * form; x tokens of a chunk after c cached ones have pairs = x c + x (x + 1) / 2; l
 * layers of width d in e bytes an element, of q = heads head_dim and b bytes of keys and
 * values a token. M are the weights that all rows meet, M' those that only drawn rows
 * meet: the head, and what follows attention in the last layer (core/engine/forward.c); K
 * those of keys and values alone, over the profile's factor for restoring.
 *
 * Of layers with a sliding window w a context counts as at most w tokens: c and pairs are
 * means over the layers, which may have a window or see everything.
 *
 * A are pairs of a row and a token whose X it meets without K and V
 * (core/engine/hidden.c): d numbers twice for each of h heads. X is read twice, which is
 * what K and V would be and is counted as if they were; K's weights are multiplied once
 * more, for the queries and the values. Ranks have a share of X's columns each: the
 * others' queries and sums come from them, a number of X's size for each of h heads, and
 * scores are added up (kernels/cpu/absorb.c).
 *
 * E are the weights of all x experts of the mixtures, of which a row meets a in each
 * layer. R rows that choose evenly meet the part m(R) = 1 - (1 - a / x)^R of them, and
 * each of those has R a / (x m(R)) rows. All rows count in the last layer too.
 *
 * f(R) is the time of one weight at R rows. Measured profiles bring it as a curve;
 * without one it is the roofline (Williams et al., CACM 2009)
 *
 *   f(R) = max(bytes / (bandwidth weights), 2 R / (matrix peak matrix)).
 *
 * A line of stages, each of N ranks and with its part of the layers, has as many parts of
 * a step under way as there are stages or sequences, whichever is less: equal ones, as
 * budgets of tokens make them (Sarathi-Serve, OSDI 2024, section 4.3). Each goes through
 * all layers, and when it leaves the line its next step follows at once, so a step takes
 * as long as one part does, plus the way of its rows from stage to stage:
 *
 *   (stages - 1) (latency + R d e / B_peer)
 *
 * The straggler: kernels that give a sequence's heads to workers are done when the
 * longest sequence is. If the others are read meanwhile the larger of the two counts:
 * tail = 0. If it happens to begin last both add up: tail = 1, which is also as long as
 * it can take in any order (Graham, 1969), and the form that AlignedServe's section 3
 * has: t = t_mlp + c1 sum P + c2 max P.
 */
#ifndef LLS_COST_MODEL_H
#define LLS_COST_MODEL_H

#include "core/cost/profile.h"
#include "core/model/model_config.h"

/* One model on so many ranks; whole-model numbers unless said otherwise. */
struct lls_cost_shape {
  double ranks, layers, hidden;
  double stages;          /* one after lls_cost_shape_init */
  double all_weights;     /* M: numbers that every row is multiplied with */
  double picked_weights;  /* M': numbers that drawn rows are multiplied with */
  double kv_weights;      /* K: numbers that make keys and values */
  double expert_weights;  /* E: numbers of all experts of mixtures */
  double experts, active; /* of a layer, and of those the ones that a row meets */
  double weight_bytes;    /* of one number */
  double pair_flops;      /* 4 l q: of one query meeting one key, and its value */
  double absorb_flops;    /* 4 l d h: of one row meeting one token's X */
  double score_bytes;     /* l h e: what such a pair's scores are between two ranks */
  double token_bytes;     /* b */
  double row_bytes;       /* d e: what a row is between two ranks */
  double sums;            /* over ranks, in a layer: one where branches are parallel */
  double window;          /* sliding window in tokens, the widest of any layer */
  double windowed;        /* the part of the layers that have one */
};

/* cache_bytes: of one cached number. */
void lls_cost_shape_init(struct lls_cost_shape *, const struct lls_model_config *,
                         double weight_bytes, double cache_bytes, uint32_t ranks);
/* Bytes of all matrices, of all ranks together. */
double lls_cost_weight_bytes(const struct lls_cost_shape *);

/* The work of a step; zeroed, then filled by lls_cost_add. */
struct lls_cost_load {
  double sequences, rows, drawn, restored;
  double absorbed, absorbed_rows,
      absorbed_tokens;    /* A; its rows; tokens that they read */
  double chunk_ns;        /* attention of chunks */
  double cached, longest; /* tokens that decodes read */
};

/* A profile meeting a shape: every factor of T, per rank, ready to multiply. */
struct lls_cost_rates {
  double fixed_ns;                                /* o_step + layers o_layer */
  double sequence_ns, row_ns, token_ns;           /* o_ */
  double all_weights, picked_weights, kv_weights; /* millions of numbers of a rank */
  double absorb_weights;                          /* kv_weights without the factor */
  double expert_weights, experts, active;         /* likewise; counts */
  double read_ns, multiply_ns; /* roofline: of a million weights, and of them a row */
  struct lls_profile_curve curve;
  double pair_ns, cached_ns, longest_ns, tail_ns; /* of a pair; of a cached token read */
  double absorb_ns;                /* of a pair of A; 0 = there are none, X is restored */
  double reduce_ns, reduce_row_ns; /* collectives of a step, and their rows */
  /* Those of absorbed X: of a step, of a row, and of a pair of A. */
  double absorb_reduce_ns, absorb_row_ns, score_ns;
  double stages, hop_ns, hop_row_ns; /* all ways between them, and of a row */
  double host_byte_ns, peer_byte_ns, device_byte_ns, host_latency_ns, peer_latency_ns;
  double window, windowed;
  double error; /* part of a step's time that is added: estimates wrong on purpose */
};

void lls_cost_rates_init(struct lls_cost_rates *, const struct lls_profile *,
                         const struct lls_cost_shape *);

/* A sequence that computes `tokens` after `context` cached ones. */
void lls_cost_add(const struct lls_cost_rates *, struct lls_cost_load *, uint32_t tokens,
                  uint32_t context);
/* The same sequence, added already, is in hidden form and absorbed. */
void lls_cost_absorb(struct lls_cost_load *, uint32_t tokens, uint32_t context);
double lls_cost_step_ns(const struct lls_cost_rates *, const struct lls_cost_load *);

/* `n` transfers of `bytes` together; link: enum lls_link. LLS_NEVER without
 * such a link. */
double lls_cost_copy_ns(const struct lls_cost_rates *, uint32_t link, double bytes,
                        double n);

#endif
