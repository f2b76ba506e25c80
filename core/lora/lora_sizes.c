/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of the matrices that an adapter may change; see lora.h. */
#include "core/lora/lora.h"

uint32_t lls_lora_inputs(const struct lls_model_config *c, enum lls_lora_target target)
{
  switch (target) {
  case LLS_LORA_OUTPUT:
    return c->heads * c->head_dim;
  case LLS_LORA_DOWN:
    return c->ffn;
  case LLS_LORA_SHARED_DOWN:
    return c->mixture.shared;
  case LLS_LORA_EXPERT_DOWN:
    return c->mixture.ffn;
  case LLS_LORA_EXPERT_GATE:
  case LLS_LORA_EXPERT_UP:
    return c->mixture.latent > 0 ? c->mixture.latent : c->hidden;
  default:
    return c->hidden;
  }
}

uint32_t lls_lora_outputs(const struct lls_model_config *c, enum lls_lora_target target)
{
  switch (target) {
  case LLS_LORA_Q:
    return c->heads * c->head_dim;
  case LLS_LORA_K:
  case LLS_LORA_V:
    return c->kv_heads * c->head_dim;
  case LLS_LORA_GATE:
  case LLS_LORA_UP:
    return c->ffn;
  case LLS_LORA_SHARED_GATE:
  case LLS_LORA_SHARED_UP:
    return c->mixture.shared;
  case LLS_LORA_EXPERT_GATE:
  case LLS_LORA_EXPERT_UP:
    return c->mixture.ffn;
  case LLS_LORA_EXPERT_DOWN:
    return c->mixture.latent > 0 ? c->mixture.latent : c->hidden;
  default:
    return c->hidden;
  }
}

uint32_t lls_lora_copies(const struct lls_model_config *c, enum lls_lora_target target)
{
  return target >= LLS_LORA_EXPERT_GATE ? c->mixture.experts : 1;
}

size_t lls_lora_part_numbers(const struct lls_model_config *c,
                             enum lls_lora_target target, uint32_t rank)
{
  size_t numbers = lls_lora_inputs(c, target) + (size_t)lls_lora_outputs(c, target);
  return numbers * lls_lora_copies(c, target) * rank;
}
