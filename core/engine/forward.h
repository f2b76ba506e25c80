/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the files of the forward pass share. */
#ifndef LLS_ENGINE_FORWARD_H
#define LLS_ENGINE_FORWARD_H

#include "core/engine/engine_internal.h"

/* The forward pass, with the rows that it still computes. */
struct lls_forward {
  struct lls_engine *e;
  const struct lls_device_ops *ops;
  struct lls_device *device;
  void *x;              /* (n_rows, hidden) */
  const void *attended; /* (n_rows, lls_mix_width) attention's output in this layer */
  uint32_t n_rows;
  bool picked;                /* the rows are those that need logits */
  const void *inputs;         /* (n_rows, layer_inputs) of this layer, if it has any */
  struct lls_streams streams; /* n = 0: x alone */
};

/* latent.c: computes multi-head latent attention of a branch's input into `attended`. */
void lls_engine_attend_latent(struct lls_forward *, uint32_t layer,
                              struct lls_attention_shape *, const void *h);
/* index.c; they do nothing for models without an index. */
size_t lls_engine_index_bytes(const struct lls_engine *);
int lls_engine_make_index(struct lls_engine *);
/* Computes queries and keys of a layer's index from a branch's input, and from the vector
 * that attention's queries are made of. */
void lls_engine_make_index_rows(const struct lls_forward *, uint32_t layer, const void *h,
                                const void *queries_of);
/* Sets the tokens that attention goes over, when the layer's keys are cached. */
void lls_engine_choose(const struct lls_forward *, uint32_t layer,
                       struct lls_attention_shape *);
/* layer_inputs.c; they do nothing for models without such inputs. */
size_t lls_engine_input_numbers(const struct lls_engine *);
int lls_engine_make_inputs(struct lls_engine *);
/* Keeps the embedding; makes a layer's inputs of it, for all rows of a step; drops those
 * of rows that need no logits; adds them to x. */
void lls_engine_keep_embedding(const struct lls_forward *, float scale);
void lls_engine_make_layer_input(struct lls_forward *, uint32_t layer);
void lls_engine_pick_layer_input(struct lls_forward *);
void lls_engine_add_layer_input(const struct lls_forward *, uint32_t layer);

/* joined.c; they do nothing for other models and engines. Makes x of a layer that guesses
 * of the embedding, which x is; keeps the rows that the head reads. */
void lls_engine_join(const struct lls_forward *);
void lls_engine_keep_hidden(const struct lls_forward *);
/* Keeps what a layer reads; adds the embedding's part to EAGLE-3's q, k and v; makes its
 * logits those of all tokens. */
void lls_engine_keep_layer(const struct lls_forward *, uint32_t layer);
void lls_engine_add_entry(const struct lls_forward *, void *qkv);
void lls_engine_spread_logits(const struct lls_forward *);
/* Numbers that a row needs in the buffers of this file. */
size_t lls_engine_joined_numbers(const struct lls_engine *);
/* Allocates room for a step's hidden rows; copies those of a batch there. */
int lls_engine_make_joined(struct lls_engine *);
void lls_engine_bring_hidden(struct lls_engine *, const struct lls_engine_batch *);

/* streams.c; they do nothing for models without streams, LAUREL, or gates that are cut.
 */
size_t lls_engine_stream_numbers(const struct lls_engine *);
int lls_engine_make_streams(struct lls_engine *);
/* Makes the streams of the embedding; x of a layer; drops rows that need no logits. */
void lls_engine_split_streams(struct lls_forward *, float scale);
void lls_engine_predict_streams(struct lls_forward *, uint32_t layer);
void lls_engine_pick_streams(struct lls_forward *);
/* Changes the streams by the layer's x, and sets act.h to the input of the gate of the
 * layer's inputs; makes the final x. */
void lls_engine_correct_streams(const struct lls_forward *, uint32_t layer);
void lls_engine_join_streams(struct lls_forward *);
/* Adds to x what LAUREL makes of attention's input; cuts gates of `wide`. */
void lls_engine_add_laurel(const struct lls_forward *, uint32_t layer, const void *h);
void lls_engine_cut_gates(const struct lls_forward *, uint32_t layer);

/* Rows of a buffer that another buffer follows: devices may pad rows to 8. */
static inline size_t lls_engine_padded_rows(size_t n_rows)
{
  return (n_rows + 7) / 8 * 8;
}

/* recurrent.c: layers with a state; set `attended` from input h (n_rows, hidden). */
void lls_engine_scale(const struct lls_forward *, float factor, uint32_t columns,
                      void *x); /* 0: not at all */
void lls_engine_convolve(struct lls_forward *, uint32_t layer, const void *h);
void lls_engine_delta(struct lls_forward *, uint32_t layer, const void *h);
void lls_engine_space(struct lls_forward *, uint32_t layer, const void *h);
/* Folds rows of a layer, and their gates, as the step's spans say. */
void lls_engine_fold_rows(const struct lls_forward *, uint32_t layer, void *rows,
                          const void *gates);
/* tails.c: keeps the rows of guesses, and their gates if there are any. */
void lls_engine_keep_tail(const struct lls_forward *, uint32_t layer, const void *rows,
                          uint32_t columns, const void *gates);
/* mixture.c: sets y to the output of the layer's experts for input (n_rows, hidden), or
 * adds the output to y. */
void lls_engine_mix(const struct lls_forward *, uint32_t layer, const void *input,
                    enum lls_linear_store, void *y);
/* Sets y to the sum of the layer's experts and its MLP, each with norms of its own. */
void lls_engine_mix_beside(const struct lls_forward *, uint32_t layer, void *y);

/* mixture.c: computes the mlp's activated inner layer; returns the buffer it is in. Sums
 * x over ranks. */
const void *lls_engine_mlp_inner(const struct lls_forward *, uint32_t layer,
                                 const void *input);
void lls_engine_sum_shares(const struct lls_forward *, void *x);
/* Returns the most (row, expert) slots in a step; 0 if the model has no mixture. */
size_t lls_engine_slots(const struct lls_engine *);
/* Allocates the buffers of the mixtures, at create. */
int lls_engine_make_mixture(struct lls_engine *);
void lls_engine_free_mixture(struct lls_engine *);

#endif
