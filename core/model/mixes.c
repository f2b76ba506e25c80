/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of layers by what makes a row see the tokens before it: attention, or a state. */
#include "core/base/least.h"
#include "core/model/model_config.h"

uint32_t lls_mix_columns(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_recurrent_config *r = &c->recurrent;
  switch (c->layer[layer].mix) {
  case LLS_MIX_SHORT_CONV:
    return 3 * r->channels;
  case LLS_MIX_DELTA:
  case LLS_MIX_SPACE:
    return lls_space_columns(r);
  case LLS_MIX_BESIDE: /* the two use the buffer in turn */
    return lls_most_u32(lls_qkv_columns(c, layer), lls_space_columns(r));
  case LLS_MIX_NONE:
    return 0;
  default:
    return lls_qkv_columns(c, layer);
  }
}

uint32_t lls_mix_gates(const struct lls_model_config *c, uint32_t layer)
{
  enum lls_layer_mix mix = c->layer[layer].mix;
  if (mix == LLS_MIX_DELTA || mix == LLS_MIX_SPACE)
    return (mix == LLS_MIX_DELTA ? 2 : 1) * c->recurrent.value_heads;
  if (mix == LLS_MIX_BESIDE)
    return c->recurrent.value_heads;
  return mix == LLS_MIX_ATTENTION && c->output_gate ? c->heads * c->head_dim : 0;
}

size_t lls_mix_numbers(const struct lls_model_config *c, uint32_t layer)
{
  size_t gates = (size_t)c->hidden * lls_mix_gates(c, layer);
  const struct lls_recurrent_config *r = &c->recurrent;
  size_t space = (size_t)c->hidden * lls_space_columns(r);
  if (c->layer[layer].mix == LLS_MIX_NONE)
    return 0;
  if (c->layer[layer].mix == LLS_MIX_BESIDE) /* with the state space's output product */
    return lls_qkv_numbers(c, layer) + space + gates +
           (size_t)c->hidden * r->value_heads * r->value_dim;
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
  case LLS_MIX_SPACE:
    return r->value_heads * r->value_dim;
  case LLS_MIX_NONE:
    return 0;
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
  case LLS_MIX_SPACE:
  case LLS_MIX_BESIDE:
    return old * lls_delta_channels(r) +
           (size_t)r->value_heads * r->key_dim * r->value_dim;
  default:
    return 0;
  }
}
