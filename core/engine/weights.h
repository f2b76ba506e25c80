/* SPDX-License-Identifier: Apache-2.0 */
/* A model's weights on a device, as the forward pass uses them. */
#ifndef LLS_ENGINE_WEIGHTS_H
#define LLS_ENGINE_WEIGHTS_H

#include "core/device/device.h"
#include "core/model/model_config.h"

struct lls_checkpoint;
struct lls_shard;

struct lls_norm_weights {
  float *weight, *bias; /* (hidden) bias NULL for RMS norms */
};

/* Multi-head latent attention, of this rank's heads. */
struct lls_latent_weights {
  struct lls_weight *query_down;            /* (query_rank, hidden), or NULL */
  struct lls_weight *down;                  /* (rank + rope, hidden) */
  struct lls_norm_weights query_norm, norm; /* (query_rank), (rank) */
  struct lls_experts *keys, *values; /* for each head (rank, nope), (value, rank) */
  /* With an index, which each rank has whole, else NULL: (heads dim, query_rank), (dim,
   * hidden), (heads, hidden); norm of keys (dim) */
  struct lls_weight *index_query, *index_key, *index_weights;
  struct lls_norm_weights index_norm;
};

/* Vectors of a layer with a state; device memory, or NULL. */
struct lls_recurrent_weights {
  float *conv, *conv_bias; /* (width, channels), (channels) */
  float *rate, *dt_bias;   /* (value heads) */
  float *skip;             /* (value heads) of a state space */
  float *norm;             /* (value_dim), or (value heads, value_dim) */
};

struct lls_layer_weights {
  struct lls_norm_weights attention_norm, mlp_norm;
  struct lls_norm_weights attention_output_norm, mlp_output_norm; /* LLS_NORM_BOTH */
  /* only with qk_norm */
  struct lls_norm_weights q_norm, k_norm;
  float scalar;           /* of x after the layer; with layer_scalars */
  float *sinks;           /* (heads) attention sinks of this rank's heads, or NULL */
  struct lls_weight *qkv; /* ((heads + 2 kv_heads) head_dim, hidden); heads and ffn
                             are this rank's; latent: (heads (nope + rope), hidden
                             or query_rank) */
  struct lls_latent_weights latent;
  struct lls_weight *output; /* (hidden, heads head_dim); latent: heads value */
  struct lls_weight *gates;  /* (lls_mix_gates, hidden), or NULL */
  /* Where the layer keeps a state, qkv is its first product (lls_mix_columns, hidden). */
  struct lls_recurrent_weights recurrent;
  /* A state space beside attention has these for the qkv, gates and output of one alone.
   */
  struct lls_weight *space_rows, *space_steps, *space_output;
  struct lls_weight *up; /* (ffn, hidden); gate on top of it if gated: (2 ffn, hidden) */
  struct lls_weight *down; /* (hidden, ffn) */
  struct lls_xielu xielu;  /* only with xIELU */
  /* Only with layer_inputs, n of them: */
  void *inputs_table;                   /* (ids, n) */
  struct lls_weight *inputs_projection; /* (n, hidden) */
  struct lls_weight *inputs_gate;       /* (n, hidden) */
  struct lls_weight *inputs_up;         /* (hidden, n) */
  struct lls_norm_weights inputs_output_norm;
  /* Only with streams, n of them: */
  float *stream_norm;                         /* (hidden), divided by hidden */
  struct lls_weight *stream_router;           /* (n, hidden) */
  float *stream_predict, *stream_correct;     /* (n n, n), (n, n) */
  float *stream_scale;                        /* (hidden), or NULL */
  struct lls_weight *laurel_down, *laurel_up; /* (laurel, hidden), (hidden, laurel) */
  struct lls_norm_weights laurel_norm;
  /* Instead of up and down, or with them, where the layer is a mixture: */
  struct lls_weight *mixture_in, *mixture_out; /* with mixture.latent */
  struct lls_weight *router;                   /* (experts, hidden) */
  struct lls_experts *expert_up, *expert_down; /* (2 ffn, hidden), (hidden, ffn) each */
  float *router_bias;                          /* (experts) or NULL */
  struct lls_weight *shared_up, *shared_down;  /* (2 shared, hidden), (hidden, shared) */
  struct lls_weight *shared_score;             /* (1, hidden) or NULL */
  /* Only with mixture.beside: */
  float *router_norm, *expert_factor; /* (hidden), (experts) */
  struct lls_norm_weights mixture_norm, mixture_output_norm, beside_output_norm;
};

struct lls_weights {
  void *embedding; /* (vocab, embed_dim) */
  void *positions; /* (max_context + offset, hidden) learned positions, or NULL */
  struct lls_weight *project_in;  /* (hidden, embed_dim) or NULL */
  struct lls_weight *project_out; /* (embed_dim, hidden) or NULL */
  /* (this rank's heads, lls_relative_columns) of lls_attention_shape.relative, or NULL */
  float *relative;
  /* (this rank's share of vocab, embed_dim); (labels, hidden) for an encoder that
   * classifies */
  struct lls_weight *head;
  /* (hidden, hidden) of an encoder that classifies, or NULL */
  struct lls_weight *pooler;
  struct lls_norm_weights pooler_norm; /* with classifier.normed */
  /* (3 hidden, hidden), with classifier.mean: rows of q and k that are 0, and v = x */
  struct lls_weight *mean;
  struct lls_weight *score; /* (1, hidden) of a generator that scores, or NULL */
  struct lls_norm_weights final_norm;
  struct lls_norm_weights embedding_norm; /* encoders and Bloom */
  /* With config.joins: (hidden, hidden) for the normed embedding and for the normed
   * hidden row, and the norms of both. Embedding and head are the model's. */
  struct lls_weight *join[2];
  struct lls_norm_weights join_norm[2];
  /* With config.eagle: join[0] is (hidden, 3 of the model's hidden), join_norm[0] the
   * norm of the embedding; the columns of qkv that read it; the tokens of the head's
   * rows, rising, or NULL if they are all tokens. */
  struct lls_weight *entry;
  int32_t *tokens;
  bool borrows_embedding, borrows_head;
  float *slopes;      /* (this rank's heads) of ALiBi, or NULL */
  float *v_norm;      /* (head_dim) ones, for values that are normed, or NULL */
  float *inputs_norm; /* (layer_inputs) of the layers' inputs, or NULL */
  /* (hidden, hidden) of each stream but the first, or NULL */
  struct lls_weight *stream_in[LLS_MAX_STREAMS], *stream_out[LLS_MAX_STREAMS];
  /* encoders: (token_types, max_context, hidden), sums of position and type vectors;
   * (token_types, hidden) if there are no position vectors */
  float *positions_and_types;
  uint32_t n_layers;
  struct lls_layer_weights *layers; /* (n_layers) */

  size_t bytes;                /* packed matrices on the device, nothing else */
  struct lls_checkpoint *file; /* open: the embedding may still be read from it */
};

struct lls_weights_source {
  const char *folder;
  bool dummy; /* random values; the folder is not read */
  enum lls_weight_format format;
  uint32_t sharers;               /* ranks whose weights go into the same memory, 0 = 1 */
  const struct lls_weights *ends; /* config.joins: those with the model's two ends */
  /* bytes of other allocations that the memory check adds to the weights */
  size_t other_bytes;
  char other_text[96]; /* name of these allocations in the memory check's message */
  bool (*progress)(void *context, size_t done_bytes, size_t total_bytes);
  void *progress_context;
};

/* Loads a shard of the model, or all of it if NULL; the configuration describes the
 * whole model. Returns -ENOMEM with the sizes, before much is loaded if it can be known
 * then. */
int lls_weights_load(struct lls_weights *, const struct lls_weights_source *,
                     const struct lls_model_config *, const struct lls_shard *,
                     struct lls_device *, struct lls_error *err);
void lls_weights_unload(struct lls_weights *, struct lls_device *);
/* Returns the bytes that another model's matrices will take if its numbers are stored as
 * those of the whole model `config`, whose weights are loaded. */
size_t lls_weights_bytes_of(const struct lls_model_config *other,
                            const struct lls_weights *,
                            const struct lls_model_config *config);

#endif
