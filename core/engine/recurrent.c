/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that fold all tokens before into a state of the sequence, in attention's place.
 * All rows go through the products together; only what reads and writes states knows
 * about sequences (struct lls_state_span).
 */
#include "core/engine/forward.h"

/* LFM2: the input makes two gates and x; x between them goes through a convolution. */
void lls_engine_convolve(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  const struct lls_conv_shape shape = {
      .at = e->places[layer].at,
      .channels = r->channels,
      .width = r->conv_width,
      .weight = w->recurrent.conv,
      .bias = w->recurrent.conv_bias,
      .columns = 3 * r->channels,
      .before = 0,
      .after = r->channels,
      .x = 2 * r->channels,
  };
  s->ops->linear(s->device, w->qkv, h, s->n_rows, LLS_STORE_SET, e->act.wide);
  s->ops->conv(s->device, &shape, e->act.wide, e->act.narrow);
  s->attended = e->act.narrow;
}

/* Epsilon of the lengths of q and k. */
#define LENGTH_EPSILON 1e-6f

/* Rows are q, k, v and z; the gates b and a follow all rows. */
void lls_engine_delta(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  uint32_t channels = lls_delta_channels(r), columns = lls_mix_columns(&e->config, layer);
  char *rows = e->act.wide,
       *gates = rows +
                (size_t)s->n_rows * columns * lls_dtype_bytes(s->device->activation_type);
  const struct lls_conv_shape conv = {
      .at = e->places[layer].at,
      .channels = channels,
      .width = r->conv_width,
      .silu = true,
      .weight = w->recurrent.conv,
      .columns = columns,
      .before = LLS_NO_COLUMN,
      .after = LLS_NO_COLUMN,
  };
  const struct lls_delta_shape delta = {
      .at = conv.at + (size_t)(r->conv_width - 1) * channels * sizeof(float),
      .key_heads = r->key_heads,
      .value_heads = r->value_heads,
      .key_dim = r->key_dim,
      .value_dim = r->value_dim,
      .tiled = r->tiled,
      .epsilon = LENGTH_EPSILON,
      .rate = w->recurrent.rate,
      .dt_bias = w->recurrent.dt_bias,
      .columns = columns,
  };
  const struct lls_gated_norm_shape norm = {
      .groups = r->value_heads,
      .columns = r->value_dim,
      .epsilon = e->config.norm_epsilon,
      .weight = w->recurrent.norm,
      .gate_columns = columns,
      .gate = channels,
  };
  s->ops->linear(s->device, w->qkv, h, s->n_rows, LLS_STORE_SET, rows);
  s->ops->linear(s->device, w->gates, h, s->n_rows, LLS_STORE_SET, gates);
  s->ops->conv(s->device, &conv, rows, NULL);
  s->ops->delta(s->device, &delta, rows, gates, e->act.narrow);
  s->ops->norm_gated(s->device, &norm, rows, s->n_rows, e->act.narrow);
  s->attended = e->act.narrow;
}
