/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Gemma 4 and 3n, for the table in gguf_families.c: names of tensors, keys, and
 * the keys of config.json that follow from others. */
#ifndef LLS_MODEL_GGUF_GEMMA4_H
#define LLS_MODEL_GGUF_GEMMA4_H

#include "core/model/gguf.h"

/* The names of what layers have of their own inputs. */
#define LLS_GGUF_LAYER_INPUTS                                                            \
  {"embed_tokens_per_layer", "per_layer_token_embd"},                                    \
      {"per_layer_model_projection", "per_layer_model_proj"},                            \
      {"per_layer_projection_norm", "per_layer_proj_norm"},                              \
      {"per_layer_input_gate", "inp_gate"}, {"per_layer_projection", "proj"},            \
  {                                                                                      \
    "post_per_layer_input_norm", "post_norm"                                             \
  }

extern const struct lls_gguf_pair lls_gguf_gemma4_tensors[];
extern const struct lls_gguf_pair lls_gguf_gemma4_keys[];

void lls_gguf_describe_gemma4(const struct lls_gguf *, json_t *config);

extern const struct lls_gguf_pair lls_gguf_gemma3n_tensors[];
extern const struct lls_gguf_pair lls_gguf_gemma3n_keys[];

void lls_gguf_describe_gemma3n(const struct lls_gguf *, json_t *config);

#endif
