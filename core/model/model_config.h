/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's sizes, and the structure of its layers as the forward pass interprets it.
 * An architecture's file (llama.c, opt.c, neox.c) fills this struct from config.json
 * and resolves the differences between the many versions of such files, so that no
 * later code reads JSON or the name of an architecture.
 *
 * Every layer is x += attention(norm(x)); x += mlp(norm(x)), with these variations:
 *
 *   parallel_residual  both branches read the layer's input
 *   norm_place         where the norms are; see enum lls_norm_place
 *   qk_norm            q and k are normed before they are rotated, or after it
 *   embedding_scale    multiplies the embedding, unless it is 0
 *   attention_cap, logit_cap   scores become cap tanh(score / cap), unless it is 0
 *   gated              mlp(h) = down(act(gate(h)) * up(h)) instead of down(act(up(h)))
 *   rope.dims = 0      positions are learned vectors added to the embedding
 *   output_gate        attention's output is multiplied by a logistic function of x
 *   layer[]            members that differ between layers: the window, the rotation, what
 *                      stands in attention's place
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
  LLS_ROPE_PROPORTIONAL,
};

#define LLS_MAX_ROPE_PAIRS 128

struct lls_rope_config {
  uint32_t dims; /* the first dims of each head are rotated; head_dim unless partial */
  double theta;
  enum lls_rope_scaling scaling;
  double factor;         /* linear, llama3, yarn */
  double low_frequency;  /* llama3: low_freq_factor */
  double high_frequency; /* llama3: high_freq_factor */
  double beta_fast; /* yarn: frequencies with more turns than this in the original context
                       are unchanged */
  double
      beta_slow; /* yarn: frequencies with fewer turns than this are divided by factor */
  bool truncate; /* yarn: the blend begins and ends at whole pairs */
  uint32_t original_context; /* original_max_position_embeddings */
  double attention_factor;   /* yarn, long: multiplies cos and sin; 0 = 1 */
  double score_factor;       /* yarn: "mscale_all_dim" of it, which multiplies q and k of
                              * latent models; 0 = 1 */
  double share; /* proportional: of the pairs, which turn; the others stand still */
  /* long: (dims / 2) divisors of the frequencies, for contexts up to the original one,
   * and for longer ones */
  float short_factors[LLS_MAX_ROPE_PAIRS], long_factors[LLS_MAX_ROPE_PAIRS];
};

#define LLS_MAX_LAYERS 1024

/* How a layer rotates positions. */
enum lls_layer_rope { LLS_LAYER_ROPE, LLS_LAYER_ROPE_LOCAL, LLS_LAYER_ROPE_OFF };

/* The part of a layer by which a row sees the tokens before it. */
enum lls_layer_mix {
  LLS_MIX_ATTENTION,
  LLS_MIX_SHORT_CONV, /* a convolution between two gates (LFM2) */
  LLS_MIX_DELTA,      /* a gated delta net behind a convolution (arXiv 2412.06464) */
  LLS_MIX_NONE,       /* nothing: the layer is an MLP alone */
  LLS_MIX_SPACE,      /* a state space behind a convolution: Mamba-2 (arXiv 2405.21060) */
  LLS_MIX_BESIDE,     /* attention, and a state space that reads the same input */
};

/* Members in which the layers of one model can differ. */
struct lls_layer_config {
  enum lls_layer_mix mix;
  bool no_mlp;     /* the layer has no MLP, and no norm before it */
  uint32_t window; /* sliding window in tokens, 0 = none; a token of an encoder sees
                    * those less than `window` before and after it */
  bool chunked; /* `window` tokens are a chunk, in which a token sees those before it */
  enum lls_layer_rope rope;
  bool mixture;     /* a mixture of experts replaces the MLP */
  bool plain_input; /* attention reads x itself, without a norm */
  bool no_sinks;    /* its heads have none, with attention_sinks */
  /* 0: the model's */
  uint32_t kv_heads, head_dim, ffn;
  /* The layer attends to the K and V of an earlier layer, `keeper`, and makes none. */
  bool shares;
  uint32_t keeper;
  bool v_is_k;       /* v has the matrix of k */
  bool shares_index; /* the layer attends to the tokens that an earlier one chose */
  /* The MLP's gates lose their mean plus gate_cut of their standard deviations, and are 0
   * below it. */
  bool cuts_gates;
  float gate_cut;
  float xielu[2]; /* alpha_p and alpha_n of xIELU, where the file lists them */
};

#define LLS_MAX_EXPERT_GROUPS                                                            \
  32 /* a kernel has a bit for each; published models have 8 */

/* A mixture of experts: for each row a router's scores choose some of the experts. */
struct lls_mixture_config {
  uint32_t experts;  /* 0 = no layer has a mixture */
  uint32_t active;   /* experts chosen for each row */
  uint32_t ffn;      /* inner width of an expert */
  bool normalise;    /* the weights of a row's experts are scaled to a sum of 1 */
  bool biases;       /* router and experts have biases */
  bool logistic;     /* the router's weights: logistic functions instead of a softmax */
  bool corrected;    /* a bias is added to them where experts are chosen */
  bool best_counts;  /* groups are ranked by their best expert, not by the best two */
  float scale;       /* factor of the weights; 0 = 1 */
  bool weighs_input; /* weights multiply the experts' inputs, not their outputs */
  uint32_t groups, used_groups; /* experts are chosen in the best groups; 0 = one group */
  uint32_t shared;  /* inner width of the MLP that all rows go through too; 0 = none */
  bool shared_gate; /* its output is multiplied by a logistic function of a score */
  bool beside;      /* beside the layer's own MLP, with norms of its own; Gemma 4 */
  uint32_t latent;  /* numbers that experts read and make, of products; 0 = a row of x */
};

/* An index (DeepSeek V3.2's DSA): of the tokens that a row sees, those with the largest
 * sums over heads of a weight times relu(query . key). The first rope numbers of queries
 * and keys are rotated. */
struct lls_index_config {
  uint32_t chosen;     /* tokens that a row attends to; 0 = all, and no index */
  uint32_t heads, dim; /* of its queries; its keys have one head */
  bool paired;         /* as paired_rope, for the index */
};

/* Multi-head latent attention (arXiv 2405.04434): a token is cached as one latent vector,
 * some rotated numbers, and its key in the index, for all heads. kv_heads is 1 then, and
 * head_dim what is cached. */
struct lls_latent_config {
  uint32_t rank;       /* of the latent; 0 = keys and values are cached */
  uint32_t query_rank; /* queries are made of a normed vector of this length; 0 = of x */
  uint32_t nope, rope; /* a head's query: numbers that are not rotated, then rotated */
  uint32_t value;      /* width of a head's output */
  float norm_epsilon;  /* epsilon with which latent and query vector are normed */
  struct lls_index_config index;
};

/* A generator's score of a pair of texts: the last row's product with one row of a
 * matrix, less its product with another one. */
struct lls_score_config {
  uint32_t rows;   /* of the matrix: vocab, then it is the head; 0 = no scores */
  int32_t yes, no; /* the rows; no = -1: nothing is taken away */
};

/* Layers that fold all tokens into a state; a rank has a share of the channels and heads.
 */
struct lls_recurrent_config {
  uint32_t conv_width; /* tokens that a convolution sees; 0 = no layer has a state */
  bool conv_bias;      /* a short convolution and the products around it have biases */
  uint32_t channels;   /* channels that a short convolution has */
  /* of a delta net; a state space has groups, heads, the states of a group, and a head */
  uint32_t key_heads, value_heads, key_dim, value_dim;
  bool tiled;           /* see struct lls_delta_shape */
  bool product_bias;    /* the products around a state space have biases */
  float dt_min, dt_max; /* see struct lls_space_shape */
  float norm_epsilon;   /* epsilon with which a state space norms */
  bool unnormed;        /* it has a gate alone */
  bool norm_before_gate;
};

/* Factors of branches with LLS_MIX_BESIDE: of what attention gives, of the state space's
 * rows and time steps, of the convolution's weights of x, B and C, of what the state
 * space gives, of the weights of the MLP's norm, and of its inner columns. */
struct lls_branch_factors {
  float attended, rows, steps, conv[3], folded, mlp_input, mlp_inner; /* 0 = 1 */
};

/* AltUp: x is one of several hidden states of a token; struct lls_streams. */
struct lls_streams_config {
  uint32_t n;  /* 0 = x alone */
  bool scaled; /* the layer's own inputs pass a gate that reads x times a vector */
};

/* The places of a layer's norms. */
enum lls_norm_place {
  LLS_NORM_INPUT,  /* norm of each branch's input */
  LLS_NORM_SUM,    /* norm of x after each addition */
  LLS_NORM_OUTPUT, /* norm of each branch's output, before it is added */
  LLS_NORM_BOTH,   /* norms of each branch's input and output */
};

enum lls_qk_norm {
  LLS_QK_NORM_NONE,
  LLS_QK_NORM_HEAD,  /* each head separately */
  LLS_QK_NORM_WHOLE, /* all heads of q together, and all heads of k */
};

/* The layers of an encoder that classifies, before its head. */
struct lls_classifier_config {
  enum lls_activation activation; /* of the first layer */
  bool unbiased;                  /* it has no bias */
  bool normed;                    /* a norm follows the activation */
  bool mean; /* it reads the mean of a text's rows, not the first row */
};

#define LLS_MAX_EOS 8

/* Sampling defaults from generation_config.json, for requests that do not set them. */
struct lls_model_sampling {
  double temperature, top_p, min_p, repetition_penalty; /* 1, 1, 0, 1 if the file does
                                                         * not set them */
  double top_k;                                         /* a whole number; 0 = off */
};

struct lls_architecture;

/*
 * A layer that guesses as EAGLE-3 does (arXiv 2503.01840): the hidden row is a product of
 * the rows that three layers of the model read, and attention reads the normed embedding
 * with it. It has a head of its own, over a part of the model's tokens.
 */
#define LLS_EAGLE_LAYERS 3
struct lls_eagle_config {
  uint32_t layers[LLS_EAGLE_LAYERS]; /* of the model, whose inputs are joined */
  uint32_t hidden;                   /* the model's */
  uint32_t rows;                     /* tokens that the head knows */
  bool own_embedding, own_head;      /* else those of the model */
};

struct lls_model_config {
  const struct lls_architecture *architecture;

  uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  uint32_t embed_dim;   /* width of the embedding; projected if it differs from hidden */
  uint32_t max_context; /* number of positions of the model */
  enum lls_dtype dtype; /* type of the checkpoint's plain tensors: F32, F16 or BF16 */
  uint32_t code_bits;   /* bits of quantised weights in the checkpoint; 0: none */

  enum lls_norm_kind norm;
  float norm_epsilon;
  bool norm_affine;   /* norms have weights, and with LLS_NORM_LAYER biases */
  bool norm_unbiased; /* LLS_NORM_LAYER without the biases */
  bool final_norm, parallel_residual;
  enum lls_norm_place norm_place;
  enum lls_qk_norm qk_norm;
  bool qk_norm_plain;    /* without weights, and only in layers that rotate; Llama 4 */
  bool v_norm;           /* v is normed by heads as well, without weights */
  bool rope_before_norm; /* q and k are rotated before they are normed */
  bool paired_rope;      /* dimensions 2i and 2i + 1 of a head rotate together; the loader
                          * reorders the rows of q and k to the halves of the graph */
  float norm_offset;     /* added to norms' weights in the file */
  float embedding_scale; /* 0 = 1 */
  float attention_scale; /* factor of q.k; 0 = 1 / sqrt(head_dim) */
  float attention_cap, logit_cap;
  float logit_scale; /* factor of the logits, which the last norm's weights take; 0 = 1 */
  bool attention_sinks; /* each head has an attention sink */
  /* Numbers of a head of v, which the loader fills up with zeros to head_dim, and their
   * factor; 0 = head_dim, 1 */
  uint32_t value_dim;
  float value_scale;
  bool output_gate; /* rows of q are, for each head, a query and a gate */

  enum lls_activation activation;
  bool gated;
  bool xielu;        /* instead of activation, with parameters of each layer */
  bool xielu_listed; /* layer[] has the parameters; else tensors have them */
  float alibi; /* 0 = none; largest exponent of ALiBi's slopes, 8: heads add 2^-1 to 2^-8
                * times the distance to their scores. Positions are nothing else then. */
  uint32_t layer_inputs;      /* width of the inputs that each layer has from the token
                               * itself; 0 = none */
  uint32_t layer_input_vocab; /* ids that their tables have */
  bool layer_scalars;         /* x is multiplied by a number after each layer */
  struct lls_streams_config streams;
  /* LAUREL (arXiv 2411.07501): attention's input h, and a normed product of rank
   * laurel with it, are added to x as well, which is then divided by sqrt(2); 0 = not */
  uint32_t laurel;
  struct lls_query_growth growth;
  bool growth_unrotated; /* only in layers without rotation */

  struct lls_layer_config layer[LLS_MAX_LAYERS]; /* (layers) */
  struct lls_mixture_config mixture;
  struct lls_latent_config latent;
  struct lls_recurrent_config recurrent;
  struct lls_branch_factors factors;
  struct lls_rope_config rope;       /* dims = 0: learned positions */
  struct lls_rope_config local_rope; /* for LLS_LAYER_ROPE_LOCAL */
  uint32_t position_offset;          /* learned positions: row of position 0 */
  bool text_part;                    /* the text part of a model that also reads images */
  bool encoder;                      /* bidirectional attention; computes vectors
                                      * instead of tokens */
  uint32_t token_types;              /* encoders: 2 = token types mark the second text
                                      * of a pair */
  uint32_t text_tokens;              /* encoders: longest text in training, 0 =
                                      * max_context */
  uint32_t labels; /* number of scores that a head computes from an encoder's first row,
                    * or a generator's last one (`score`); 0 = no such head */
  struct lls_classifier_config classifier; /* with labels of an encoder */
  struct lls_score_config score;           /* rows = 0 for encoders */
  bool plain_score; /* the score is the head's output itself, not its logistic function */

  bool dense; /* encoders: the last norm's rows go through a matrix (embed_dim, hidden),
               * see dense.h */
  uint32_t relative_buckets; /* encoders: heads add to their scores a number for each
                              * range of distances (extras_loader.c); 0 = none */

  /* A layer that guesses (heads.h): x is a product of the token's embedding and of a
   * hidden row of the model whose text it continues; tensors count layers from here on.
   */
  bool joins;
  struct lls_eagle_config eagle; /* with joins: an EAGLE-3 layer; else rows = 0 */
  uint32_t first_layer;
  bool heads_behind; /* config.json says that the model has such a layer */

  bool qkv_bias, output_bias, mlp_bias, head_bias;
  bool down_bias;       /* with or without mlp_bias, the MLP's last product has a bias */
  bool tied_embeddings; /* the head is the embedding table */
  bool headless;        /* an embedder, whose folder was saved without a head: it makes
                         * vectors, and no text */

  int32_t bos;              /* -1 = none */
  int32_t eos[LLS_MAX_EOS]; /* (n_eos) each of them ends a sequence */
  uint32_t n_eos;
  struct lls_model_sampling sampling;
};

/* The use of a generator. AUTO: as its files say, see reranker.h. */
enum lls_model_task { LLS_TASK_AUTO, LLS_TASK_TEXT, LLS_TASK_RERANK };

/* Reads folder/config.json and, if it exists, generation_config.json. */
int lls_model_config_read(const char *folder, struct lls_model_config *out,
                          struct lls_error *err);
int lls_model_config_read_for(const char *folder, enum lls_model_task,
                              struct lls_model_config *out, struct lls_error *err);

/* Reads the configuration of a generator; refuses a model that does not generate
 * text. */
int lls_generator_config_read(const char *folder, struct lls_model_config *out,
                              struct lls_error *err);

/* Reads the configuration of an encoder; refuses a model that does not compute vectors
 * of texts. */
int lls_encoder_config_read(const char *folder, struct lls_model_config *out,
                            struct lls_error *err);

/* Return sizes of a layer. */
static inline uint32_t lls_layer_kv_heads(const struct lls_model_config *c,
                                          uint32_t layer)
{
  return c->layer[layer].kv_heads > 0 ? c->layer[layer].kv_heads : c->kv_heads;
}

static inline uint32_t lls_layer_head_dim(const struct lls_model_config *c,
                                          uint32_t layer)
{
  return c->layer[layer].head_dim > 0 ? c->layer[layer].head_dim : c->head_dim;
}

static inline uint32_t lls_layer_ffn(const struct lls_model_config *c, uint32_t layer)
{
  return c->layer[layer].ffn > 0 ? c->layer[layer].ffn : c->ffn;
}

/* Returns the output width of a layer's query, key, value projection. */
static inline uint32_t lls_qkv_columns(const struct lls_model_config *c, uint32_t layer)
{
  uint32_t kv_heads = c->layer[layer].shares ? 0 : lls_layer_kv_heads(c, layer);
  return (c->heads + (c->latent.rank > 0 ? 1 : 2) * kv_heads) *
         lls_layer_head_dim(c, layer);
}

/* Returns the width of what a layer's attention gives to the output projection. */
static inline uint32_t lls_attended_columns(const struct lls_model_config *c,
                                            uint32_t layer)
{
  return c->heads * (c->latent.rank > 0 ? c->latent.value : lls_layer_head_dim(c, layer));
}

/* Returns the numbers of the matrices that make streams of the embedding; as many make x
 * of streams. */
static inline size_t lls_stream_numbers(const struct lls_model_config *c)
{
  return c->streams.n > 0 ? (size_t)(c->streams.n - 1) * c->hidden * c->hidden : 0;
}

/* Returns the width of a head's query before it is absorbed. */
static inline uint32_t lls_latent_query(const struct lls_model_config *c)
{
  return c->latent.nope + c->latent.rope;
}

/* Does a layer choose tokens by an index? */
static inline bool lls_has_index(const struct lls_model_config *c, uint32_t layer)
{
  return c->latent.index.chosen > 0 && !c->layer[layer].shares_index;
}

/* Returns the weights of a layer's attention before the output projection. */
static inline size_t lls_qkv_numbers(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_latent_config *l = &c->latent;
  size_t inputs = l->query_rank > 0 ? l->query_rank : c->hidden;
  size_t down = (size_t)c->hidden * (l->query_rank + l->rank + l->rope);
  size_t heads = lls_latent_query(c) * inputs + (size_t)(l->nope + l->value) * l->rank;
  size_t index = lls_has_index(c, layer)
                     ? (size_t)l->index.heads * (l->index.dim * inputs + c->hidden) +
                           (size_t)l->index.dim * c->hidden
                     : 0;
  return l->rank > 0 ? down + c->heads * heads + index
                     : (size_t)c->hidden * lls_qkv_columns(c, layer);
}

/* Where neighbouring rows of a head are pairs, returns the row that comes to place i of
 * the graph's order: those of the first halves of the pairs, those of the second halves,
 * then the rest. */
static inline size_t lls_unpaired_row(size_t i, size_t rotated)
{
  size_t half = rotated / 2;
  if (i >= rotated)
    return i;
  return i < half ? 2 * i : 2 * (i - half) + 1;
}

/* Columns that the convolution of a delta net goes over: q, k and v; of a state space: x,
 * B and C. */
static inline uint32_t lls_delta_channels(const struct lls_recurrent_config *r)
{
  return 2 * r->key_heads * r->key_dim + r->value_heads * r->value_dim;
}

/* Columns of a state space's rows: x, B, C and z. */
static inline uint32_t lls_space_columns(const struct lls_recurrent_config *r)
{
  return lls_delta_channels(r) + r->value_heads * r->value_dim;
}

static inline bool lls_layer_attends(const struct lls_model_config *c, uint32_t layer)
{
  enum lls_layer_mix mix = c->layer[layer].mix;
  return mix == LLS_MIX_ATTENTION || mix == LLS_MIX_BESIDE;
}

/* Returns the output width of the first product of a layer, and of a second one; a delta
 * net's gates are a product of their own. */
uint32_t lls_mix_columns(const struct lls_model_config *, uint32_t layer);
uint32_t lls_mix_gates(const struct lls_model_config *, uint32_t layer);
/* Returns the numbers of the matrices before its output projection. */
size_t lls_mix_numbers(const struct lls_model_config *, uint32_t layer);
/* Returns the input width of the layer's output projection. */
uint32_t lls_mix_width(const struct lls_model_config *, uint32_t layer);
/* Returns the numbers of its state; 0: it has none. */
size_t lls_mix_state(const struct lls_model_config *, uint32_t layer);

/* Returns the largest of a size over the layers. */
static inline uint32_t
lls_most_of_layers(const struct lls_model_config *c,
                   uint32_t (*size)(const struct lls_model_config *, uint32_t layer))
{
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->layers; i++)
    most = size(c, i) > most ? size(c, i) : most;
  return most;
}

/* extras.c: returns true if the layers' heads differ in their number or size, or some
 * layers share theirs. */
bool lls_heads_differ(const struct lls_model_config *);

/* Returns the most tokens in a text of an encoder. */
static inline uint32_t lls_longest_text(const struct lls_model_config *c)
{
  bool less = c->text_tokens > 0 && c->text_tokens < c->max_context;
  return less ? c->text_tokens : c->max_context;
}

/* extras.c: returns what the model needs of a device (bits of enum lls_device_extra) if
 * no text is longer than `context`; and the name of the lowest bit. */
uint32_t lls_model_extras(const struct lls_model_config *, uint32_t context);
const char *lls_extra_name(uint32_t extras);
/* extras.c: leaves out an index that would choose all tokens of a text of `context`. */
void lls_model_fit_index(struct lls_model_config *, uint32_t context);

/* Returns the widest window of the layers; 0 if some layer attends to everything. */
uint32_t lls_widest_window(const struct lls_model_config *);

/* Computes the rotation angles per position (dims / 2), with scaling, for contexts of
 * up to `context` tokens; see rope_frequencies.c. */
void lls_rope_frequencies(const struct lls_rope_config *, uint32_t context,
                          float *inverse_frequency);

#endif
