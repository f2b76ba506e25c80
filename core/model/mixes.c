/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of layers by what makes a row see the tokens before it: attention, or a state. */
#include "core/model/model_config.h"

uint32_t lls_mix_columns(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_recurrent_config *r = &c->recurrent;
  switch (c->layer[layer].mix) {
  case LLS_MIX_SHORT_CONV:
    return 3 * r->channels;
  case LLS_MIX_DELTA:
    return lls_delta_channels(r) + r->value_heads * r->value_dim;
  default:
    return lls_qkv_columns(c, layer);
  }
}

uint32_t lls_mix_gates(const struct lls_model_config *c, uint32_t layer)
{
  enum lls_layer_mix mix = c->layer[layer].mix;
  if (mix == LLS_MIX_DELTA)
    return 2 * c->recurrent.value_heads;
  return mix == LLS_MIX_ATTENTION && c->output_gate ? c->heads * c->head_dim : 0;
}

size_t lls_mix_numbers(const struct lls_model_config *c, uint32_t layer)
{
  size_t gates = (size_t)c->hidden * lls_mix_gates(c, layer);
  return lls_mix_state(c, layer) > 0
             ? (size_t)c->hidden * lls_mix_columns(c, layer) + gates
             : lls_qkv_numbers(c, layer) + gates;
}

uint32_t lls_mix_width(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_recurrent_config *r = &c->recurrent;
  switch (c->layer[layer].mix) {
  case LLS_MIX_SHORT_CONV:
    return r->channels;
  case LLS_MIX_DELTA:
    return r->value_heads * r->value_dim;
  default:
    return lls_attended_columns(c, layer);
  }
}

size_t lls_mix_state(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_recurrent_config *r = &c->recurrent;
  size_t old = r->conv_width > 0 ? r->conv_width - 1 : 0;
  switch (c->layer[layer].mix) {
  case LLS_MIX_SHORT_CONV:
    return old * r->channels;
  case LLS_MIX_DELTA:
    return old * lls_delta_channels(r) +
           (size_t)r->value_heads * r->key_dim * r->value_dim;
  default:
    return 0;
  }
}
