/* SPDX-License-Identifier: Apache-2.0 */
/* Names and keys of mixtures of experts in GGUF files, for the tables in gguf_moe.c and
 * gguf_families.c. */
#ifndef LLS_MODEL_GGUF_MOE_H
#define LLS_MODEL_GGUF_MOE_H

#include "core/model/gguf.h"

/* The names of the shared experts, which folders call `part`. */
#define LLS_GGUF_SHARED(part)                                                            \
  {part ".gate_proj", "ffn_gate_shexp"}, {part ".up_proj", "ffn_up_shexp"},              \
  {                                                                                      \
    part ".down_proj", "ffn_down_shexp"                                                  \
  }

/* The value of expert_gating_func for a logistic function of each score. */
#define LLS_GGUF_LOGISTIC 2

/* Removes a gating_func that is logistic, and the layers behind the last one, which
 * predict further tokens. */
void lls_gguf_describe_logistic(const struct lls_gguf *, json_t *config);

#endif
