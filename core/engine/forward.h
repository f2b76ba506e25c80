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
  const void *attended; /* (n_rows, heads head_dim) attention's output in this layer */
  uint32_t n_rows;
  bool picked; /* the rows are those that need logits */
};

/* latent.c: computes multi-head latent attention of a branch's input into `attended`. */
void lls_engine_attend_latent(struct lls_forward *, uint32_t layer,
                              const struct lls_attention_shape *, const void *h);

/* mixture.c: sets y to the output of the layer's experts for input (n_rows, hidden), or
 * adds the output to y. */
void lls_engine_mix(const struct lls_forward *, const struct lls_layer_weights *,
                    const void *input, enum lls_linear_store, void *y);
/* Returns the most (row, expert) slots in a step; 0 if the model has no mixture. */
size_t lls_engine_slots(const struct lls_engine *);
/* Allocates the buffers of the mixtures, at create. */
int lls_engine_make_mixture(struct lls_engine *);
void lls_engine_free_mixture(struct lls_engine *);

#endif
