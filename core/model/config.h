/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Hugging Face config.json as one typed struct. Reading it settles everything that the
 * keys of the architectures' many versions say differently, so that nothing later looks
 * at JSON; a number that no model can have is refused here, by name.
 */
#ifndef LLS_MODEL_CONFIG_H
#define LLS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/engine/device.h"

enum lls_architecture {
  LLS_ARCH_LLAMA, /* Llama 2 and 3, Mistral, Yi */
  LLS_ARCH_OPT,
  LLS_ARCH_NEOX, /* GPT-NeoX, Pythia */
};

enum lls_rope_scaling { LLS_ROPE_PLAIN, LLS_ROPE_LINEAR, LLS_ROPE_LLAMA3 };

struct lls_rope_config {
  double theta;
  uint32_t dims; /* rotated at the head of each head; head_dim unless partial */
  enum lls_rope_scaling scaling;
  double factor;           /* linear, llama3 */
  double low, high;        /* llama3: low_freq_factor, high_freq_factor */
  double original_context; /* llama3: original_max_position_embeddings */
};

#define LLS_MAX_EOS 8

struct lls_model_config {
  enum lls_architecture architecture;
  char name[64]; /* as in "architectures", e.g. LlamaForCausalLM */

  uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  uint32_t max_context; /* positions the model has */
  uint32_t window;      /* sliding window in tokens, 0 = none */
  enum lls_activation activation;
  float norm_epsilon;
  struct lls_rope_config rope; /* dims = 0: learned positions */
  enum lls_dtype dtype;        /* of the checkpoint: F32, F16 or BF16 */

  bool tied_embeddings; /* the head is the embedding table */
  bool attention_bias, attention_output_bias, mlp_bias;
  bool parallel_residual; /* NeoX: attention and mlp read the same input */
  bool norm_before;       /* OPT: pre-norm; false = post-norm (350m) */
  bool final_norm;        /* OPT: false with _remove_final_layer_norm or post-norm */
  bool norm_affine;       /* OPT: layer_norm_elementwise_affine */
  uint32_t embed_dim;     /* OPT: word_embed_proj_dim; = hidden where not projected */

  int32_t bos;              /* -1 = none */
  int32_t eos[LLS_MAX_EOS]; /* (n_eos) any of them ends a sequence */
  uint32_t n_eos;
};

/* Reads folder/config.json and, if there, generation_config.json. */
int lls_model_config_read(const char *folder, struct lls_model_config *out,
                          struct lls_error *err);

#endif
