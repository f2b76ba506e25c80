/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model: the sizes and the shape of its layers, as the forward pass interprets
 * them. An architecture's file (llama.c, opt.c, neox.c) fills this from config.json and
 * settles everything that the many versions of those files say differently, so that
 * nothing later looks at JSON or at an architecture's name.
 *
 * Every layer is x += attention(norm(x)); x += mlp(norm(x)), with these variations:
 *
 *   parallel_residual  both branches read the layer's input
 *   norm_place         the norm follows each addition, or is of the branch's output
 *   qk_norm            q and k are normed before they are rotated
 *   embedding_scale    multiplies the embedding, where it is not 0
 *   attention_cap, logit_cap   scores become cap tanh(score / cap), where it is not 0
 *   gated              mlp(h) = down(act(gate(h)) * up(h)) instead of down(act(up(h)))
 *   rope.dims = 0      positions are learned vectors added to the embedding
 *   layer[]            what differs from layer to layer: the window, the rotation
 */
#ifndef LLS_MODEL_MODEL_CONFIG_H
#define LLS_MODEL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/device/device.h"

enum lls_rope_scaling {
  LLS_ROPE_PLAIN,
  LLS_ROPE_LINEAR,
  LLS_ROPE_LLAMA3,
  LLS_ROPE_YARN,
  LLS_ROPE_LONG,
};

#define LLS_MAX_ROPE_PAIRS 128

struct lls_rope_config {
  uint32_t dims; /* the first dims of each head are rotated; head_dim unless partial */
  double theta;
  enum lls_rope_scaling scaling;
  double factor;             /* linear, llama3, yarn */
  double low_frequency;      /* llama3: low_freq_factor */
  double high_frequency;     /* llama3: high_freq_factor */
  double beta_fast;          /* yarn: turns in the original context above which a
                              * frequency stays as it is ... */
  double beta_slow;          /* ... and below which it is divided by factor */
  bool truncate;             /* yarn: between whole pairs */
  uint32_t original_context; /* original_max_position_embeddings */
  double attention_factor;   /* yarn, long: multiplies cos and sin; 0 = 1 */
  /* long: (dims / 2) what divides the frequencies, within the original context and where
   * more than that is served */
  float short_factors[LLS_MAX_ROPE_PAIRS], long_factors[LLS_MAX_ROPE_PAIRS];
};

#define LLS_MAX_LAYERS 1024

/* How a layer rotates positions. */
enum lls_layer_rope { LLS_LAYER_ROPE, LLS_LAYER_ROPE_LOCAL, LLS_LAYER_ROPE_OFF };

/* Members in which the layers of one model can differ. */
struct lls_layer_config {
  uint32_t window; /* sliding window in tokens, 0 = none */
  enum lls_layer_rope rope;
  bool mixture; /* of experts, in the place of one mlp */
};

/* A mixture of experts: a router's scores choose some of them for each row. */
struct lls_mixture_config {
  uint32_t experts; /* 0 = no layer is one */
  uint32_t active;  /* of them a row */
  uint32_t ffn;     /* inner columns of an expert */
  bool normalise;   /* the weights of a row's experts add up to 1 */
  bool biases;      /* router and experts have them */
};

/* Where a layer's norms are. */
enum lls_norm_place {
  LLS_NORM_INPUT,  /* of each branch's input */
  LLS_NORM_SUM,    /* of x after each addition */
  LLS_NORM_OUTPUT, /* of each branch's output, before it is added */
  LLS_NORM_BOTH,   /* of input and output */
};

enum lls_qk_norm {
  LLS_QK_NORM_NONE,
  LLS_QK_NORM_HEAD,  /* each head by itself */
  LLS_QK_NORM_WHOLE, /* all heads of q together, and of k */
};

#define LLS_MAX_EOS 8

/* Sampling defaults from generation_config.json, for requests that set none. */
struct lls_model_sampling {
  double temperature, top_p, min_p, repetition_penalty; /* 1, 1, 0, 1 unless it says */
  double top_k;                                         /* whole; 0 = off */
};

struct lls_architecture;

struct lls_model_config {
  const struct lls_architecture *architecture;

  uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  uint32_t embed_dim;   /* width of the embedding; projected where it is not hidden */
  uint32_t max_context; /* positions the model has */
  enum lls_dtype dtype; /* of the checkpoint: F32, F16 or BF16 */
  uint32_t code_bits;   /* of weights that are quantised in it, 0: they are not */

  enum lls_norm_kind norm;
  float norm_epsilon;
  bool norm_affine; /* norms have weights (and biases, if LLS_NORM_LAYER) */
  bool final_norm, parallel_residual;
  enum lls_norm_place norm_place;
  enum lls_qk_norm qk_norm;
  float norm_offset;     /* added to what the file has as a norm's weights */
  float embedding_scale; /* 0 = 1 */
  float attention_scale; /* of q.k, 0 = 1 / sqrt(head_dim) */
  float attention_cap, logit_cap;
  bool attention_sinks; /* each head has one */

  enum lls_activation activation;
  bool gated;

  struct lls_layer_config layer[LLS_MAX_LAYERS]; /* (layers) */
  struct lls_mixture_config mixture;
  struct lls_rope_config rope;       /* dims = 0: learned positions */
  struct lls_rope_config local_rope; /* of LLS_LAYER_ROPE_LOCAL */
  uint32_t position_offset;          /* learned: row of position 0 */
  bool text_part;                    /* of a model that reads images too */
  bool encoder;                      /* attention both ways; makes vectors, no tokens */
  uint32_t token_types;              /* encoders: 2 = the second text of a pair is told */
  uint32_t text_tokens;              /* encoders: the most it was trained with, 0 = all */
  uint32_t labels;  /* encoders: a head makes so many scores of the first row; 0 = none */
  bool plain_score; /* which are what it gives, not the logistic function of it */

  bool qkv_bias, output_bias, mlp_bias;
  bool tied_embeddings; /* the head is the embedding table */

  int32_t bos;              /* -1 = none */
  int32_t eos[LLS_MAX_EOS]; /* (n_eos) any of them ends a sequence */
  uint32_t n_eos;
  struct lls_model_sampling sampling;
};

/* Reads folder/config.json and, where there is one, generation_config.json. */
int lls_model_config_read(const char *folder, struct lls_model_config *out,
                          struct lls_error *err);

/* The same, but refuses what makes no text. */
int lls_generator_config_read(const char *folder, struct lls_model_config *out,
                              struct lls_error *err);

/* The same, but refuses what makes no vectors of texts. */
int lls_encoder_config_read(const char *folder, struct lls_model_config *out,
                            struct lls_error *err);

/* Outputs of the fused query, key, value projection. */
static inline uint32_t lls_qkv_columns(const struct lls_model_config *c)
{
  return (c->heads + 2 * c->kv_heads) * c->head_dim;
}

/* Tokens of the longest text of an encoder. */
static inline uint32_t lls_longest_text(const struct lls_model_config *c)
{
  bool less = c->text_tokens > 0 && c->text_tokens < c->max_context;
  return less ? c->text_tokens : c->max_context;
}

/* The window that all layers have; 0 if one sees everything. */
uint32_t lls_widest_window(const struct lls_model_config *);

/* The rotation angles per position (dims / 2), scaling applied, for contexts of up to
 * `context` tokens; see rope_frequencies.c. */
void lls_rope_frequencies(const struct lls_rope_config *, uint32_t context,
                          float *inverse_frequency);

#endif
