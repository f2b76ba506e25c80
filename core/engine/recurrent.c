/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that fold all tokens before into a state of the sequence, in attention's place.
 * All rows go through the products together; only what reads and writes states knows
 * about sequences (struct lls_state_span).
 */
#include "core/engine/forward.h"

void lls_engine_scale(const struct lls_forward *s, float factor, uint32_t columns,
                      void *x)
{
  if (factor > 0 && factor != 1)
    s->ops->scale(s->device, factor, s->n_rows, columns, x);
}

/* LFM2: the input makes two gates and x; x between them goes through a convolution. */
static void fold_convolution(const struct lls_forward *s, uint32_t layer, void *rows)
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
  s->ops->conv(s->device, &shape, rows, e->act.narrow);
}

void lls_engine_convolve(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  s->ops->linear(s->device, e->weights.layers[layer].qkv, h, s->n_rows, LLS_STORE_SET,
                 e->act.wide);
  lls_engine_keep_tail(s, layer, e->act.wide, 3 * e->config.recurrent.channels, NULL);
  fold_convolution(s, layer, e->act.wide);
  s->attended = e->act.narrow;
}

/* Where a second product of the layer goes, behind the rows of the first. Steps that a
 * device pads to the same number of rows have it at the same place, which its graphs
 * contain. */
static void *behind_rows(const struct lls_forward *s, uint32_t columns)
{
  return (char *)s->e->act.wide + lls_engine_padded_rows(s->n_rows) * columns *
                                      lls_dtype_bytes(s->device->activation_type);
}

/* Epsilon of the lengths of q and k. */
#define LENGTH_EPSILON 1e-6f

/* Rows are q, k, v and z; the gates b and a follow all rows. */
static void fold_delta(const struct lls_forward *s, uint32_t layer, void *rows,
                       const void *gates)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  uint32_t channels = lls_delta_channels(r), columns = lls_mix_columns(&e->config, layer);
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
  s->ops->conv(s->device, &conv, rows, NULL);
  s->ops->delta(s->device, &delta, rows, gates, e->act.narrow);
}

void lls_engine_delta(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  uint32_t columns = lls_mix_columns(&e->config, layer);
  char *rows = e->act.wide, *gates = behind_rows(s, columns);
  const struct lls_gated_norm_shape norm = {
      .groups = r->value_heads,
      .columns = r->value_dim,
      .epsilon = e->config.norm_epsilon,
      .weight = w->recurrent.norm,
      .gate_columns = columns,
      .gate = lls_delta_channels(r),
  };
  s->ops->linear(s->device, w->qkv, h, s->n_rows, LLS_STORE_SET, rows);
  s->ops->linear(s->device, w->gates, h, s->n_rows, LLS_STORE_SET, gates);
  lls_engine_keep_tail(s, layer, rows, columns, gates);
  fold_delta(s, layer, rows, gates);
  s->ops->norm_gated(s->device, &norm, rows, s->n_rows, e->act.narrow);
  s->attended = e->act.narrow;
}

/* The convolution goes over x, B and C, which z follows; the time steps follow all rows.
 */
static struct lls_conv_shape space_conv(const struct lls_engine *e, uint32_t layer)
{
  const struct lls_recurrent_config *r = &e->config.recurrent;
  return (struct lls_conv_shape){
      .at = e->places[layer].at,
      .channels = lls_delta_channels(r),
      .width = r->conv_width,
      .silu = true,
      .weight = e->weights.layers[layer].recurrent.conv,
      .bias = e->weights.layers[layer].recurrent.conv_bias,
      .columns = lls_space_columns(r),
      .before = LLS_NO_COLUMN,
      .after = LLS_NO_COLUMN,
  };
}

/* The products before a state space, each with its factor. */
static void space_products(struct lls_forward *s, const struct lls_layer_weights *w,
                           const void *h, void *rows, void *steps)
{
  const struct lls_recurrent_config *r = &s->e->config.recurrent;
  const struct lls_branch_factors *f = &s->e->config.factors;
  bool beside = w->space_rows != NULL;
  s->ops->linear(s->device, beside ? w->space_rows : w->qkv, h, s->n_rows, LLS_STORE_SET,
                 rows);
  s->ops->linear(s->device, beside ? w->space_steps : w->gates, h, s->n_rows,
                 LLS_STORE_SET, steps);
  lls_engine_scale(s, f->rows, lls_space_columns(r), rows);
  lls_engine_scale(s, f->steps, r->value_heads, steps);
}

static void fold_space(const struct lls_forward *s, uint32_t layer, void *rows,
                       const void *steps)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  const struct lls_conv_shape conv = space_conv(e, layer);
  const struct lls_space_shape space = {
      .at = conv.at + (size_t)(r->conv_width - 1) * conv.channels * sizeof(float),
      .heads = r->value_heads,
      .head_dim = r->value_dim,
      .groups = r->key_heads,
      .state_dim = r->key_dim,
      .dt_min = r->dt_min,
      .dt_max = r->dt_max,
      .rate = w->recurrent.rate,
      .dt_bias = w->recurrent.dt_bias,
      .skip = w->recurrent.skip,
      .columns = conv.columns,
  };
  s->ops->conv(s->device, &conv, rows, NULL);
  s->ops->space(s->device, &space, rows, steps, e->act.narrow);
}

void lls_engine_space(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_recurrent_config *r = &e->config.recurrent;
  uint32_t columns = lls_space_columns(r);
  char *rows = e->act.wide, *steps = behind_rows(s, columns);
  const struct lls_gated_norm_shape norm = {
      .groups = r->key_heads,
      .columns = r->value_heads / r->key_heads * r->value_dim,
      .epsilon = r->norm_epsilon,
      .weight = w->recurrent.norm,
      .each_weight = true,
      .gate_first = !r->norm_before_gate,
      .gate_columns = columns,
      .gate = lls_delta_channels(r),
  };
  space_products(s, w, h, rows, steps);
  lls_engine_keep_tail(s, layer, rows, columns, steps);
  fold_space(s, layer, rows, steps);
  s->ops->norm_gated(s->device, &norm, rows, s->n_rows, e->act.narrow);
  lls_engine_scale(s, e->config.factors.folded, r->value_heads * r->value_dim,
                   e->act.narrow);
  s->attended = e->act.narrow;
}

/* ---- rows that were kept ----------------------------------------------------------- */

void lls_engine_fold_rows(const struct lls_forward *s, uint32_t layer, void *rows,
                          const void *gates)
{
  switch (s->e->config.layer[layer].mix) {
  case LLS_MIX_SHORT_CONV:
    fold_convolution(s, layer, rows);
    return;
  case LLS_MIX_DELTA:
    fold_delta(s, layer, rows, gates);
    return;
  case LLS_MIX_SPACE:
  case LLS_MIX_BESIDE:
    fold_space(s, layer, rows, gates);
    return;
  case LLS_MIX_ATTENTION:
  case LLS_MIX_NONE:
    return;
  }
}
