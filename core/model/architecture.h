/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An architecture is described in one file: its names, how its config.json is read, and
 * the names of its tensors. To add one, write the file, give it a row in
 * LLS_ARCHITECTURES below, and add a reference model to t/data/models.
 */
#ifndef LLS_MODEL_ARCHITECTURE_H
#define LLS_MODEL_ARCHITECTURE_H

#include "core/model/model_config.h"
#include "core/model/json.h"

/*
 * Layers with a state. A short convolution: `in` has the rows of its two gates and of x;
 * a state space: those of z, x, B, C and the time steps.
 * A delta net: q, k and v; z; b and a, in tensors of their own, or the rows of each key
 * head together in `qkvz` and `ba`, whichever the file has. `rate`, `dt_bias` and
 * `skip` are full names.
 */
struct lls_recurrent_names {
  const char *in, *qkv, *z, *b, *a, *qkvz, *ba;
  const char *conv, *rate, *dt_bias, *skip, *norm, *output;
};

/*
 * Names of tensors without ".weight" or ".bias"; NULL: the architecture has no such
 * tensor. A full name is prefix + name; for tensors of a layer prefix + layers + "N." +
 * name. The head has no prefix, or head_prefix.
 */
struct lls_tensor_names {
  const char *prefixes[4]; /* the first one with which the embedding exists is used */
  const char *embedding, *positions, *project_in, *project_out, *final_norm, *head;
  const char *head_prefix; /* some folders have it before the head's name; or NULL */
  const char *layers;      /* "layers." */
  const char *attention_norm, *mlp_norm;
  const char *q, *k, *v;
  const char *fused_qkv;   /* instead of q, k, v: rows are (heads, [q k v], head_dim) */
  const char *stacked_qkv; /* instead of q, k, v: the rows of q, then of k, then of v */
  /* Instead of q, k and v, with latent.rank: what queries are made of, its norm, and
   * queries of it (or of x: q); the latent and the rotated part of a key, the latent's
   * norm, and keys and values of it; or those apart, in GGUF files. */
  const char *latent_query_down, *latent_query_norm, *latent_query_up;
  const char *latent_down, *latent_norm, *latent_up;
  const char *latent_keys, *latent_values;
  /* With latent.index: its queries, keys, norm of keys (with weight and bias), and what
   * gives the heads' weights */
  const char *index_query, *index_key, *index_norm, *index_weights;
  const char *output;
  const char *gate, *up, *down;
  const char *stacked_up;      /* instead of gate and up: the rows of gate, then of up */
  const char *stacked_up_gate; /* instead of them: the rows of up, then of gate */
  const char *q_norm, *k_norm;
  const char *attention_output_norm, *mlp_output_norm; /* only with LLS_NORM_BOTH */
  /* Mixtures of experts: the router; tensors of expert E are experts + "E." +
   * expert_gate ... */
  const char *router, *experts, *expert_gate, *expert_up, *expert_down;
  const char *expert_blocks_up;  /* instead of expert_gate and expert_up, all experts in
                                  * one tensor: rows of gate and up alternate, in MXFP4
                                  * blocks, as in expert_down */
  const char *expert_stacked_up; /* the same in numbers of the folder's type, as
                                  * expert_down is then too: rows of gate, then of up */
  bool experts_turned;           /* each as (inputs, outputs) */
  bool experts_alternate;        /* rows of gate and up alternate */
  const char *router_bias;       /* with mixture.corrected */
  /* With mixture.shared; without shared_gate its rows come before those of shared_up */
  const char *shared_gate, *shared_up, *shared_down;
  const char *shared_score;             /* with mixture.shared_gate */
  const char *mixture_in, *mixture_out; /* with mixture.latent */
  /* With mixture.beside: norm of the router's input, factors of the experts' weights,
   * norms of the mixture's input and output, and of the output of the layer's MLP */
  const char *router_norm, *expert_scale, *mixture_norm, *mixture_output_norm,
      *beside_output_norm;
  /* With layer_inputs: tables of all layers side by side, the product of the embedding
   * that is added and its norm; products and norm in each layer */
  const char *inputs_embedding, *inputs_projection, *inputs_norm;
  const char *inputs_gate, *inputs_up, *inputs_output_norm;
  const char *layer_scalar; /* with layer_scalars */
  /* With streams: before the numbers of the matrices that make streams of the embedding,
   * and the final x of streams; the layer's norm and matrix of scores, the matrices of
   * predict and correct, and the full name of the vector of `scaled` */
  const char *stream_in, *stream_out;
  const char *stream_norm, *stream_router, *stream_predict, *stream_correct,
      *stream_scale;
  const char *laurel_down, *laurel_up, *laurel_norm; /* with laurel */
  const char *sinks;
  struct lls_recurrent_names recurrent;
  const char *xielu; /* before the names of the activation's four parameters */
  const char *types, *embedding_norm; /* encoders: types are added to the embedding,
                                       * the norm follows */
  /* Encoders that classify: tanh(pooler x), then the head. `pooler` is prefixed;
   * pooler_in_head is not. */
  const char *pooler, *pooler_in_head;
  const char *pooler_norm;   /* with classifier.normed; no prefix */
  const char *relative_bias; /* with relative_buckets: (buckets, heads) */
  const char *score;         /* with config.score, if it is not the head; no prefix */
  /* With config.joins: the product of the normed embedding and the normed hidden row, in
   * this order; the norms of both; the norm before the head, instead of final_norm.
   * join_in_layer: they are named as tensors of the layer. */
  const char *join, *join_embedding, *join_hidden, *join_norm;
  bool join_in_layer;
  bool layer_alone; /* the layer has no number: layers + name */
};

struct lls_architecture {
  const char *title;        /* common names of the models */
  const char *const *names; /* the model's names in "architectures"; ends with NULL */
  bool mxfp4;               /* experts may be in MXFP4 blocks */
  bool encoder;    /* the model computes vectors of texts instead of generating */
  bool transposed; /* folders store matrices of layers as (inputs, outputs) */
  struct lls_tensor_names tensors;
  /* Names of the layer behind the last one, which guesses (heads.h); NULL: there is none.
   * Its embedding, head and configuration are the model's. */
  const struct lls_tensor_names *heads;
  /* Fills *config from the keys; the caller checks the sizes. */
  int (*configure)(const struct lls_json *, struct lls_model_config *,
                   struct lls_error *);
};

/* The architectures: each one's row. */
#define LLS_ARCHITECTURES(ROW)                                                           \
  ROW(lls_llama)                                                                         \
  ROW(lls_qwen2)                                                                         \
  ROW(lls_qwen3)                                                                         \
  ROW(lls_qwen3_classifier)                                                              \
  ROW(lls_llama4)                                                                        \
  ROW(lls_smollm3)                                                                       \
  ROW(lls_olmo2)                                                                         \
  ROW(lls_olmo3)                                                                         \
  ROW(lls_qwen2_vl)                                                                      \
  ROW(lls_qwen3_vl)                                                                      \
  ROW(lls_mistral3)                                                                      \
  ROW(lls_granite)                                                                       \
  ROW(lls_ernie)                                                                         \
  ROW(lls_cohere)                                                                        \
  ROW(lls_cohere2)                                                                       \
  ROW(lls_exaone4)                                                                       \
  ROW(lls_seed_oss)                                                                      \
  ROW(lls_hunyuan)                                                                       \
  ROW(lls_starcoder2)                                                                    \
  ROW(lls_gpt2)                                                                          \
  ROW(lls_gptj)                                                                          \
  ROW(lls_phi)                                                                           \
  ROW(lls_stablelm)                                                                      \
  ROW(lls_falcon)                                                                        \
  ROW(lls_falcon_grouped)                                                                \
  ROW(lls_apertus)                                                                       \
  ROW(lls_bloom)                                                                         \
  ROW(lls_mpt)                                                                           \
  ROW(lls_nemotron)                                                                      \
  ROW(lls_minicpm3)                                                                      \
  ROW(lls_minicpm)                                                                       \
  ROW(lls_lfm2)                                                                          \
  ROW(lls_qwen3_next)                                                                    \
  ROW(lls_qwen3_5)                                                                       \
  ROW(lls_qwen3_5_moe)                                                                   \
  ROW(lls_nemotron_h)                                                                    \
  ROW(lls_granite_hybrid)                                                                \
  ROW(lls_gguf_granite_hybrid)                                                           \
  ROW(lls_mamba2)                                                                        \
  ROW(lls_falcon_h1)                                                                     \
  ROW(lls_qwen2_moe)                                                                     \
  ROW(lls_glm4_moe)                                                                      \
  ROW(lls_minimax_m2)                                                                    \
  ROW(lls_hunyuan_moe)                                                                   \
  ROW(lls_hy3)                                                                           \
  ROW(lls_mimo_v2)                                                                       \
  ROW(lls_deepseek_v2)                                                                   \
  ROW(lls_mistral4)                                                                      \
  ROW(lls_deepseek_v3)                                                                   \
  ROW(lls_deepseek_v32)                                                                  \
  ROW(lls_glm5)                                                                          \
  ROW(lls_kimi_k25)                                                                      \
  ROW(lls_ernie_moe)                                                                     \
  ROW(lls_glm4)                                                                          \
  ROW(lls_phi3)                                                                          \
  ROW(lls_gpt_oss)                                                                       \
  ROW(lls_mixtral)                                                                       \
  ROW(lls_qwen3_moe)                                                                     \
  ROW(lls_qwen3_vl_moe)                                                                  \
  ROW(lls_gemma2)                                                                        \
  ROW(lls_gemma3)                                                                        \
  ROW(lls_gemma4)                                                                        \
  ROW(lls_gemma3n)                                                                       \
  ROW(lls_opt)                                                                           \
  ROW(lls_neox)                                                                          \
  ROW(lls_bert)                                                                          \
  ROW(lls_bert_classifier)                                                               \
  ROW(lls_roberta)                                                                       \
  ROW(lls_roberta_classifier)                                                            \
  ROW(lls_gguf_classifier)                                                               \
  ROW(lls_modernbert)                                                                    \
  ROW(lls_modernbert_classifier)                                                         \
  ROW(lls_nomic_bert)                                                                    \
  ROW(lls_gte)                                                                           \
  ROW(lls_mpnet)                                                                         \
  ROW(lls_embedding_gemma)

#define LLS_ARCHITECTURE_DECLARE(name) extern const struct lls_architecture name;
LLS_ARCHITECTURES(LLS_ARCHITECTURE_DECLARE)

/* Names that folders never have: cross-encoders in GGUF files; and the key with the rows
 * of a generator's classifier there, the first of which is of yes. */
#define LLS_GGUF_CLASSIFIER "GgufCrossEncoder"
#define LLS_GGUF_SCORE_ROWS "gguf_score_rows"
/* Granite 4 H in GGUF files, where tensors are not stacked. */
#define LLS_GGUF_GRANITE "GgufGraniteHybrid"

/* The names of Llama's tensors, which most later architectures share. */
/* Embedders such as Qwen3-Embedding are saved without the head and without the prefix. */
#define LLS_LLAMA_TENSORS .prefixes = {"model.", ""}, LLS_LLAMA_NAMES
#define LLS_LLAMA_NAMES                                                                  \
  .embedding = "embed_tokens", .final_norm = "norm", .head = "lm_head",                  \
  .layers = "layers.", .output = "self_attn.o_proj", .down = "mlp.down_proj"
#define LLS_LLAMA_NORMS                                                                  \
  .attention_norm = "input_layernorm", .mlp_norm = "post_attention_layernorm"
#define LLS_LLAMA_QKV                                                                    \
  .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj"
#define LLS_LLAMA_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj"
#define LLS_MAMBA_TENSORS(mixer)                                                         \
  .recurrent = {.in = mixer "in_proj",                                                   \
                .conv = mixer "conv1d",                                                  \
                .rate = mixer "A_log",                                                   \
                .dt_bias = mixer "dt_bias",                                              \
                .skip = mixer "D",                                                       \
                .norm = mixer "norm",                                                    \
                .output = mixer "out_proj"}
#define LLS_GEMMA_NORMS                                                                  \
  .attention_norm = "input_layernorm",                                                   \
  .attention_output_norm = "post_attention_layernorm",                                   \
  .mlp_norm = "pre_feedforward_layernorm",                                               \
  .mlp_output_norm = "post_feedforward_layernorm"
#define LLS_LATENT_NAMES                                                                 \
  .q = "self_attn.q_proj", .latent_query_down = "self_attn.q_a_proj",                    \
  .latent_query_norm = "self_attn.q_a_layernorm",                                        \
  .latent_query_up = "self_attn.q_b_proj",                                               \
  .latent_down = "self_attn.kv_a_proj_with_mqa",                                         \
  .latent_norm = "self_attn.kv_a_layernorm", .latent_up = "self_attn.kv_b_proj",         \
  .latent_keys = "self_attn.k_b_proj", .latent_values = "self_attn.v_b_proj"
/* The layer that guesses, of DeepSeek-V3 and models like it. */
#define LLS_NEXTN_NAMES                                                                  \
  .join = "eh_proj", .join_embedding = "enorm", .join_hidden = "hnorm",                  \
  .join_norm = "shared_head.norm", .join_in_layer = true
#define LLS_LLAMA_QK_NORMS .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define LLS_GEMMA_NORMS                                                                  \
  .attention_norm = "input_layernorm",                                                   \
  .attention_output_norm = "post_attention_layernorm",                                   \
  .mlp_norm = "pre_feedforward_layernorm",                                               \
  .mlp_output_norm = "post_feedforward_layernorm"
#define LLS_LAYER_INPUTS                                                                 \
  .inputs_embedding = "embed_tokens_per_layer",                                          \
  .inputs_projection = "per_layer_model_projection",                                     \
  .inputs_norm = "per_layer_projection_norm", .inputs_gate = "per_layer_input_gate",     \
  .inputs_up = "per_layer_projection", .inputs_output_norm = "post_per_layer_input_norm"
/* Prefixes of the text part of models that also read images. */
#define LLS_TEXT_PREFIXES                                                                \
  .prefixes = {"model.language_model.", "language_model.model.", "model.", ""},          \
  .head_prefix = "language_model."

/* Keeps every product of two sizes far below 64 bits; the error names the size that is
 * too large. */
int lls_config_check_sizes(const struct lls_json *, const struct lls_model_config *,
                           struct lls_error *err);

/* Helpers for configure. */
/* Marks keys as read that change nothing; the list ends with NULL. */
void lls_config_pass_over(const struct lls_json *, const char *const *keys);
/* Refuses a file in which one of the keys switches something on; the list ends with
 * NULL. */
int lls_config_all_off(const struct lls_json *, const char *const *keys,
                       struct lls_error *);
/* Reads the rotation of sliding layers, if it differs; its dims are those of rope. */
int lls_config_local_rope(const struct lls_json *, const char *theta_key,
                          struct lls_model_config *, struct lls_error *err);
/* Reads everything in Llama's config.json except windows, which the caller sets. */
int lls_config_llama(const struct lls_json *, struct lls_model_config *,
                     struct lls_error *err);
/* Reads Mistral 4, which is "text_config" of a Mistral 3; deepseek.c. */
int lls_config_mistral4(const struct lls_json *, struct lls_model_config *,
                        struct lls_error *err);
/* Reads sizes, norms and activation by GPT-2's keys, which GPT-J has too; gpt2.c. */
int lls_config_gpt(const struct lls_json *, struct lls_model_config *,
                   struct lls_error *err);
/* Reads multi-head latent attention, and Llama's other keys; deepseek.c. */
int lls_config_latent(const struct lls_json *, struct lls_model_config *,
                      struct lls_error *err);
/* Reads the mixtures of GLM-4.5 and DeepSeek V3, except for attention; moe.c. */
int lls_config_logistic_mixture(const struct lls_json *, struct lls_model_config *,
                                struct lls_error *err);
/* Reads Qwen's windows, which apply from one layer on if they are switched on;
 * qwen2.c. */
int lls_config_qwen_window(const struct lls_json *, struct lls_model_config *,
                           struct lls_error *err);
/* Reads a classifier of one label, and whether its output is the score as it is;
 * bert.c. */
int lls_config_labels(const struct lls_json *, struct lls_model_config *,
                      struct lls_error *err);
/* Read everything of RoBERTa, and of Gemma 3's text part. */
int lls_config_roberta(const struct lls_json *, struct lls_model_config *,
                       struct lls_error *);
int lls_config_gemma3_text(const struct lls_json *, struct lls_model_config *,
                           struct lls_error *);
/* Reads Gemma 4's norms, scales and activation, which Gemma 3n has, and Llama's keys; cap
 * is that of logits where the file has none; gemma4.c. */
int lls_config_gemma4_graph(const struct lls_json *, double cap,
                            struct lls_model_config *, struct lls_error *);
/* Read the layers that attend to keys and values of earlier ones, whose windows are
 * known, and the sizes of the layers' own inputs; gemma4.c. */
int lls_config_shared_layers(const struct lls_json *, struct lls_model_config *,
                             struct lls_error *);
int lls_config_layer_inputs(const struct lls_json *, struct lls_model_config *,
                            struct lls_error *);
/* Reads the text part of a model that also reads images: configure is called with
 * "text_config", whose missing keys have the values of `defaults`, which is taken over;
 * or with the whole file if it has no such part. */
int lls_config_text_part(const struct lls_json *, json_t *defaults,
                         struct lls_model_config *,
                         int (*configure)(const struct lls_json *,
                                          struct lls_model_config *, struct lls_error *),
                         struct lls_error *err);
/* Reads Granite 3's graph: Llama's with four factors; granite.c. */
int lls_config_granite(const struct lls_json *, struct lls_model_config *,
                       struct lls_error *err);
/* Reads the epsilon of RMS norms under either of its two keys; mamba.c. */
int lls_config_epsilon(const struct lls_json *, struct lls_model_config *,
                       struct lls_error *);
/* Keys of layers with the state space of Mamba-2. */
struct lls_mamba_keys {
  const char *heads, *head_dim, *groups, *states, *width, *expand, *chunk;
  const char *conv_bias, *bias;
};
extern const struct lls_mamba_keys lls_mamba_keys; /* Granite 4 H, Falcon-H1 */
/* Reads the sizes of Mamba-2's layers, behind the hidden size and the norms' epsilon;
 * mamba.c. */
int lls_config_mamba(const struct lls_json *, const struct lls_mamba_keys *,
                     struct lls_model_config *, struct lls_error *err);
/* Multiplies what each branch adds to x by `factor`. Only for models with norms of the
 * branches' inputs: x itself is kept smaller by the factor, which those norms undo. */
void lls_config_scale_branches(struct lls_model_config *, double factor);
/* Reads "layer_norm_eps" and sets layer norms. */
int lls_config_layer_norm(const struct lls_json *, const char *key,
                          struct lls_model_config *, struct lls_error *err);
/* Sets the same window in every layer. */
void lls_config_window(struct lls_model_config *, uint32_t window);
/* Reads "layer_types", a list of two names: which layers have the `other` one. *found is
 * false, and nothing is written, if the file has no such list. */
int lls_config_two_kinds(const struct lls_json *, uint32_t layers, const char *usual,
                         const char *other, bool *is_other, bool *found,
                         struct lls_error *err);
/* Reads "layer_types", a list of full_attention and sliding_attention, and gives the
 * sliding layers the window. *found is false if the file has no such list. */
int lls_config_layer_types(const struct lls_json *, struct lls_model_config *,
                           uint32_t window, bool *found, struct lls_error *err);
int lls_config_sizes(const struct lls_json *, struct lls_model_config *,
                     const char *ffn_key, struct lls_error *err);
int lls_config_activation(const struct lls_json *, const char *key, const char *fallback,
                          enum lls_activation *out, struct lls_error *err);
/* Reads rope_parameters (transformers 5), or rope_scaling and theta_key. share: the
 * rotated part of a head if the file does not set it. */
int lls_config_rope(const struct lls_json *, const char *theta_key, double share,
                    struct lls_model_config *, struct lls_error *err);
/* Reads the growth of queries with their position, as Mistral's files have it. */
int lls_config_growth(const struct lls_json *, struct lls_model_config *,
                      struct lls_error *err);

#endif
