/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device: one vtable of operations, implemented by kernels/cpu (the reference),
 * kernels/sim (no arithmetic, virtual time) and kernels/cuda. The forward pass in
 * core/engine is written once for this interface; no code below it contains policy, and
 * no code above the engine calls it.
 *
 * Order. Operations of one device are executed in the order of the calls, as on a
 * stream; a call may return before its operation is complete. step_end waits for all
 * operations and reports the first error since step_begin, so the operations themselves
 * return nothing.
 *
 * Numbers. Activations are rows of the device's activation type (f32 on the CPU, passed
 * as void * since CUDA uses bf16); logits are always f32. A `row` is one token of the
 * batch. All operations allow n_rows = 0. Nothing between step_begin and step_end
 * allocates.
 *
 * Threads. A device belongs to one instance: it is created on the thread that loads the
 * model and destroyed on [main], while no step thread exists; all other functions are
 * [step], unless stated otherwise.
 */
#ifndef LLS_DEVICE_H
#define LLS_DEVICE_H

#include "core/base/error.h"
#include "core/device/adapters.h"
#include "core/device/extras.h"
#include "core/device/pool_shape.h"
#include "core/device/states.h"

enum lls_memory {
  LLS_MEMORY_DEVICE, /* activations, tables */
  LLS_MEMORY_PINNED, /* host memory for fast copies */
  LLS_MEMORY_PIECES, /* the device's own memory for packed blocks; see piece_write */
};

/*
 * Rows of a matrix (or a vector: rows = 1) in host memory, typically in a mapped
 * safetensors or GGUF file. data = NULL: fill with random numbers of standard
 * deviation 0.02 from `seed` (load_format = dummy).
 */
struct lls_tensor_view {
  const void *data; /* (rows, columns), rows `row_stride` elements apart */
  enum lls_dtype dtype;
  size_t rows, columns; /* for a linear layer: outputs, inputs */
  size_t row_stride;    /* in elements; = columns if dense; both a multiple of the
                         * type's block */
  uint64_t seed;
  /* LLS_CODED: data is a struct lls_coded, and the view is the part that begins here. */
  size_t first_row, first_column;
};

/* [engine] weights = ... */
enum lls_weight_format {
  LLS_WEIGHTS_AUTO, /* the model's own type, if the device multiplies it efficiently */
  LLS_WEIGHTS_F32,
  LLS_WEIGHTS_BF16,
  LLS_WEIGHTS_INT8, /* one scale per 32 inputs of an output */
  LLS_WEIGHTS_INT4,
};

struct lls_link_ops;
struct lls_weight;  /* a linear layer's matrix and bias, in the device's format */
struct lls_experts; /* one matrix per expert, all of one shape */
struct lls_pool;    /* the unit blocks of one instance, on the device and on the host */

/* A list of blocks in a step. */
struct lls_step_list {
  const struct lls_block_entry *entries; /* (n) */
  uint32_t n;
  /* Entries are whole blocks in order, from the left; the last maybe not full. Said where
   * the step has entries. */
  bool tidy;
};

/* One sequence's part of a batch: rows [first_row, first_row + n_rows), with its list in
 * one group of layers. */
struct lls_step_sequence {
  /* K and V: context + n_rows tokens, but maybe not the first ones that no row sees */
  struct lls_step_list kv;
  struct lls_step_list hidden; /* X, of a sequence that has any */
  uint32_t first_row, n_rows;
  uint32_t context; /* tokens cached before this step; row i has position context + i */
  uint32_t n_restored; /* first tokens, whose X is in `hidden`: see restore */
  bool scratch;        /* its kv list is of scratch blocks, rewritten in each layer */
  bool absorbed;       /* it has none: its rows attend to X, see attend_hidden */
};

/* Returns the first token that a list covers; 0 for an empty list. */
static inline uint32_t lls_list_begin(const struct lls_block_entry *list, uint32_t n)
{
  return n > 0 ? list[0].first_token : 0;
}

/* The batch of one step as the device sees it. Valid until step_end. */
struct lls_device_step {
  uint32_t n_rows, n_sequences;
  const int32_t *tokens;    /* (n_rows) ids */
  const int32_t *positions; /* (n_rows) */
  const uint32_t *sequence; /* (n_rows) index into sequences */
  /* (groups of the pool, n_sequences), decodes and chunks mixed; X and scratch are of
   * group 0 */
  const struct lls_step_sequence *sequences;
  /* (n_spans) what the rows do to states; a sequence's are in its order */
  const struct lls_state_span *spans;
  uint32_t n_spans;
  /* Host memory for a layer's state of each span with target NO_STATE, if the device's
   * memory is the host's; else NULL */
  void *spare;
  size_t spare_bytes; /* of a span */
  /* For an asynchronous device: all lists of the step, pinned; else NULL. */
  const struct lls_block_entry *entries;
  size_t n_entries;
  /* Nothing is computed, and outputs have arbitrary contents: the device prepares for
   * steps with the same operations. Only for a device with `prepares`. */
  bool prepare;
};

/* The sequences of a step with their lists in a group. */
static inline const struct lls_step_sequence *
lls_step_group(const struct lls_device_step *s, uint32_t group)
{
  return s->sequences + (size_t)group * s->n_sequences;
}

enum lls_norm_kind { LLS_NORM_RMS, LLS_NORM_LAYER };

enum lls_activation {
  LLS_ACT_RELU,
  LLS_ACT_GELU,      /* exact, erf */
  LLS_ACT_GELU_TANH, /* the tanh approximation */
  LLS_ACT_TANH,
  LLS_ACT_SILU,
  LLS_ACT_SQUARED_RELU, /* the larger of x and 0, squared */
  /* Only for gates (gpt-oss), both inputs clamped to 7: g sigmoid(1.702 g) (u + 1). */
  LLS_ACT_CLAMPED_SWIGLU,
};

enum lls_linear_store {
  LLS_STORE_SET, /* y = x W^T + b */
  LLS_STORE_ADD, /* y += x W^T + b: the residual stream */
};

struct lls_attention_shape {
  uint32_t heads, kv_heads, head_dim; /* heads is a multiple of kv_heads */
  float scale;                        /* factor of q.k, normally 1/sqrt(head_dim) */
  uint32_t window;                    /* sliding window in tokens, 0 = none */
  bool chunked; /* a row sees the tokens from the last multiple of `window` on */
  /* (heads) device memory, NULL = none: for each head the score of an additional token
   * with value 0 */
  const float *sinks;
  float soft_cap; /* 0 = none, else scaled scores become cap tanh(score / cap) */
  /* of the layer; `layer` of an operation on the cache is its number in the group */
  uint32_t group;
  /* (heads) device memory, NULL = none: ALiBi (arXiv 2108.12409), which adds to a scaled
   * score the head's slope times the distance of the token, a negative number; without
   * sinks and soft_cap */
  const float *slopes;
  /* (heads, lls_relative_columns(reach)) device memory, NULL = none: what attention both
   * ways adds to a scaled score by the token's distance, from -reach to reach */
  const float *relative;
  uint32_t reach;
  /* Multi-head latent attention: V is K itself, so that rows have no columns of v. The
   * numbers of an output behind the width of V mean nothing. */
  bool latent;
  /* rows have no k and v, as the layer attends to those that an earlier layer cached */
  bool queries_alone;
  /* (n_rows, n_chosen) written by choose, NULL = none: a row that sees more tokens than
   * n_chosen attends to these, in ascending order, alone. Without window and slopes. */
  const uint32_t *chosen;
  uint32_t n_chosen;
};

/* Heads of k in a row of q, k and v, and as many of v. */
static inline uint32_t lls_row_kv_heads(const struct lls_attention_shape *s)
{
  return s->queries_alone ? 0 : s->kv_heads;
}

/* Columns of a row of q, k and v. */
static inline size_t lls_qkv_width(const struct lls_attention_shape *s)
{
  return (size_t)(s->heads + (s->latent ? 1 : 2) * lls_row_kv_heads(s)) * s->head_dim;
}

/* Returns the numbers of a head in lls_attention_shape.relative: the first is of distance
 * -reach, and behind the last are as many zeros as a kernel's tile reads past it. */
static inline size_t lls_relative_columns(uint32_t reach)
{
  return 2 * (size_t)reach + 1 + 64;
}

/* RMS norms of q and k: of each head separately, or `whole`: of all heads together,
 * including those of other ranks. */
struct lls_qk_norm_shape {
  const float *q, *k; /* (head_dim), whole: (heads head_dim) and (kv_heads head_dim) */
  const float *v;     /* (head_dim), or NULL: v is not normed; not with `whole` */
  float epsilon;
  bool whole;
};

#define LLS_MAX_EXPERTS 1024
#define LLS_MAX_ACTIVE  32

/* The routing of rows through a mixture of experts, in device memory, written by route.
 * A row has `active` entries, one for each of its experts. Sorted by expert, then by
 * row, the entries are the rows of the grouped products. */
struct lls_route {
  uint32_t experts, active;
  uint32_t *expert; /* (n_rows, active) best first */
  float *weight;    /* (n_rows, active) */
  uint32_t *place;  /* (n_rows, active) index of the entry in sorted order */
  uint32_t *row;    /* (n_rows active) the row of each sorted entry */
  uint32_t *first;  /* (experts + 1) index of each expert's first sorted entry */
  /* Only with LLS_EXTRA_ROUTER: weights are logistic functions of the scores instead of a
   * softmax; `bias` is added to them where experts are chosen; experts are chosen among
   * the used_groups groups whose best two are largest; weights are multiplied by
   * scale. */
  bool logistic;
  uint32_t groups, used_groups; /* 0 = one */
  bool best_counts;             /* a group's best one counts, not the best two */
  float scale;                  /* 0 = 1 */
  const float *bias;            /* (experts) device memory, or NULL */
  const float *factor;          /* (experts) of each one's weight, likewise */
  bool weighs_input; /* a weight multiplies what the expert reads, not its result */
};

struct lls_rope_shape {
  uint32_t head_dim, rotary_dims; /* rotary_dims of each head are rotated */
  uint32_t first;                 /* from this one on; only latent models: not 0 */
  const float *inverse_frequency; /* (rotary_dims / 2), host memory, scaling applied */
  float attention_factor;         /* multiplies cos and sin (yarn), normally 1 */
};

/* How the next token of one row is sampled; core/device/sampling.h has the order. */
struct lls_sampling;
struct lls_sampled;

struct lls_device;

struct lls_device_ops {
  const char *name;      /* "cpu", "cuda", "sim" */
  bool has_filter_chain; /* sample takes rows for which lls_sampling_is_chain holds */

  void (*destroy)(struct lls_device *);
  /* Writes one line for the log: ISA in use, threads, memory. */
  void (*describe)(struct lls_device *, char *text, size_t size);
  /* Writes only the properties that determine the device's speed. */
  void (*identify)(struct lls_device *, char *text, size_t size);
  int (*memory)(struct lls_device *, size_t *total, size_t *available); /* bytes */
  /* Gets the host's memory; optional, NULL: the host is this machine. */
  int (*host_memory)(struct lls_device *, size_t *total, size_t *available);

  int (*alloc)(struct lls_device *, enum lls_memory, size_t bytes, void **out);
  void (*release)(struct lls_device *, enum lls_memory, void *);

  /*
   * Stacks matrices (q, k, v; gate, up) into one matrix of (sum of rows, columns).
   * biases: NULL, or (n_parts) views of one row each; an entry with rows = 0 means
   * zeros. The views may be dropped once this returns.
   */
  int (*weight_create)(struct lls_device *, const struct lls_tensor_view *parts,
                       const struct lls_tensor_view *biases, size_t n_parts,
                       enum lls_weight_format, struct lls_weight **out,
                       struct lls_error *err);
  void (*weight_destroy)(struct lls_device *, struct lls_weight *);
  size_t (*weight_bytes)(const struct lls_weight *);

  /* Makes a norm's weight or bias, as f32 on the device; freed by release(DEVICE). */
  int (*vector_create)(struct lls_device *, const struct lls_tensor_view *, float **out,
                       struct lls_error *err);
  /* Makes a lookup table for embed; uses the view's mapped memory if it can. */
  int (*table_create)(struct lls_device *, const struct lls_tensor_view *, void **out,
                      struct lls_error *err);
  void (*table_destroy)(struct lls_device *, void *table);

  int (*pool_create)(struct lls_device *, const struct lls_pool_shape *,
                     struct lls_pool **out, struct lls_error *err);
  void (*pool_destroy)(struct lls_device *, struct lls_pool *);
  /* Carries out copies in order, before any operation called later. Returns -EINVAL if
   * one is outside of the pool. */
  int (*pool_copy)(struct lls_device *, struct lls_pool *, const struct lls_copy *,
                   size_t n);
  /*
   * Copies from the pool of another device of this kind; optional, NULL = unsupported.
   * The copies follow those of pool_copy, and run concurrently with the next step,
   * which uses none of the targets; they are complete when step_end returns. Until then
   * no operation writes the sources, which must be written by completed steps. Returns
   * -EINVAL if one is outside of a pool.
   */
  int (*pool_pull)(struct lls_device *, struct lls_pool *, struct lls_device *from,
                   const struct lls_pool *from_pool, const struct lls_pull *, size_t n);

  /* The bytes of a group's block in KV form on the device, to and from memory, between
   * steps; optional, NULL = unsupported. -EINVAL if outside. */
  int (*pool_read)(struct lls_device *, const struct lls_pool *, uint32_t group,
                   uint32_t block, void *to);
  int (*pool_write)(struct lls_device *, struct lls_pool *, uint32_t group,
                    uint32_t block, const void *from);

  /* [any one thread] Copy slots of unit blocks to and from PINNED or PIECES memory,
   * packed in the order of the pulls, concurrently with steps. The blocks read must be
   * written by completed steps; no step may use blocks that are written. An INT8 block
   * is its bytes, followed by its scales. The pull's members about the other side are
   * ignored. They return when the copies are complete. Optional, NULL = unsupported.
   * Return -EINVAL if one is outside of the pool. */
  int (*pool_pack)(struct lls_device *, const struct lls_pool *, const struct lls_pull *,
                   size_t n, void *to);
  int (*pool_unpack)(struct lls_device *, struct lls_pool *, const struct lls_pull *,
                     size_t n, const void *from);
  /* [any one thread] Copy bytes between PINNED and PIECES memory. They make the device
   * current for the calling thread, for libraries that receive such memory. Optional,
   * NULL = the device has no PIECES memory: its memory is the host's. */
  int (*piece_write)(struct lls_device *, void *piece, const void *from, size_t bytes);
  int (*piece_read)(struct lls_device *, const void *piece, void *to, size_t bytes);
  /* Optional, NULL = none: link.h. */
  const struct lls_link_ops *links;

  int (*step_begin)(struct lls_device *, struct lls_pool *,
                    const struct lls_device_step *);
  int (*step_end)(struct lls_device *, struct lls_error *err);
  /* Returns why pool_copy, pool_pull or step_begin has just failed, in the device's own
   * words; "" if it has none. Optional, NULL = always "". */
  const char *(*refusal)(const struct lls_device *);

  /* x = table[tokens of the step] * scale; x (n_rows, columns) */
  void (*embed)(struct lls_device *, const void *table, float scale, void *x);
  /* x += table[position + offset of each row] (learned positions, OPT: offset 2) */
  void (*embed_positions)(struct lls_device *, const void *table, int32_t offset,
                          void *x);
  /* y = norm(x) * weight + bias; bias NULL for RMS; x may be y; (n_rows, columns) */
  void (*norm)(struct lls_device *, enum lls_norm_kind, const void *x,
               const float *weight, const float *bias, float epsilon, uint32_t n_rows,
               uint32_t columns, void *y);
  /* y (n_rows, outputs) from x (n_rows, inputs); x and y distinct */
  void (*linear)(struct lls_device *, const struct lls_weight *, const void *x,
                 uint32_t n_rows, enum lls_linear_store, void *y);
  /* Computes logits: linear, but with f32 output, for the language model head. */
  void (*logits)(struct lls_device *, const struct lls_weight *, const void *x,
                 uint32_t n_rows, float *y);
  void (*activate)(struct lls_device *, enum lls_activation, void *x, uint32_t n_rows,
                   uint32_t columns);
  /* y = act(x[:, :columns]) * x[:, columns:]; x (n_rows, 2 columns), y (n_rows,
   * columns) */
  void (*gated)(struct lls_device *, enum lls_activation, const void *x, uint32_t n_rows,
                uint32_t columns, void *y);
  void (*add)(struct lls_device *, const void *x, uint32_t n_rows, uint32_t columns,
              void *y);
  /* Optional, each with its bit of extras: x = xielu(x); queries of qkv times their
   * growth; rows of x times the logistic function of `scores` (n_rows). */
  void (*xielu)(struct lls_device *, const struct lls_xielu *, void *x, uint32_t n_rows,
                uint32_t columns);
  void (*grow_queries)(struct lls_device *, const struct lls_attention_shape *,
                       const struct lls_query_growth *, void *qkv);
  void (*gate_rows)(struct lls_device *, const float *scores, void *x, uint32_t n_rows,
                    uint32_t columns);
  /* Optional, with LLS_EXTRA_LAYER_INPUTS. embed_layer: x += table[tokens of the step] *
   * scale, where a token that the table lacks is token 0. gate_inputs: x = act(x) * y.
   * scale: x *= factor. x and y (n_rows, columns) */
  void (*embed_layer)(struct lls_device *, const void *table, float scale, void *x);
  void (*gate_inputs)(struct lls_device *, enum lls_activation, const void *y,
                      uint32_t n_rows, uint32_t columns, void *x);
  void (*scale)(struct lls_device *, float factor, uint32_t n_rows, uint32_t columns,
                void *x);

  /*
   * Optional, with LLS_EXTRA_STREAMS. m (n_rows, n) = tanh(scores). predict adds to each
   * stream i the sum over j of stream j times the product of m and row i n + j of `mix`
   * (n n, n), and sets x to stream 0. correct adds x - stream 0 to each stream i, times 1
   * plus the product of m and row i of `mix` (n, n); y = stream 0 times scale (columns),
   * or stream 0 if that is NULL. match_size multiplies each row of x so that the mean of
   * its squares is that of `like`.
   */
  void (*predict)(struct lls_device *, const struct lls_streams *, const float *scores,
                  const float *mix, uint32_t n_rows, uint32_t columns, void *x);
  void (*correct)(struct lls_device *, const struct lls_streams *, const float *scores,
                  const float *mix, const float *scale, const void *x, uint32_t n_rows,
                  uint32_t columns, void *y);
  void (*match_size)(struct lls_device *, const void *like, uint32_t n_rows,
                     uint32_t columns, void *x);
  /* With the same bit; x (n_rows, 2 columns) is as for gated. Takes from each gate the
   * mean and `factor` standard deviations of all `whole` gates of its row, of which ranks
   * have a share each; those that are less become 0. */
  void (*cut_gates)(struct lls_device *, float factor, uint32_t whole, uint32_t n_rows,
                    uint32_t columns, void *x);

  /*
   * qkv (n_rows, (heads + 2 kv_heads) head_dim): q, then k, then v of each row, or q
   * alone.
   * norm_qk norms q and k in place, and v if that has weights. rope rotates q and k in
   * place by the rows' positions, pairs (i, i + rotary_dims/2).
   */
  void (*norm_qk)(struct lls_device *, const struct lls_attention_shape *,
                  const struct lls_qk_norm_shape *, void *qkv);
  void (*rope)(struct lls_device *, const struct lls_attention_shape *,
               const struct lls_rope_shape *, void *qkv);
  /*
   * Optional pair, LLS_EXTRA_LATENT. latent_rows makes rows (n_rows, (heads + 1)
   * (rank + rope)) for rope, cache_write and attention: of each head the absorbed query,
   * then the normed latent; from q (n_rows, heads (nope + rope)), kv (n_rows, rank +
   * rope) and a matrix (rank, nope) for each head. latent_values makes y (n_rows, heads
   * value) of x (n_rows, heads (rank + rope)) and a matrix (value, rank) for each head.
   */
  void (*latent_rows)(struct lls_device *, const struct lls_latent_shape *,
                      const struct lls_experts *keys, const void *q, const void *kv,
                      void *rows);
  void (*latent_values)(struct lls_device *, const struct lls_latent_shape *,
                        const struct lls_experts *values, const void *x, void *y);
  /* Optional, with LLS_EXTRA_INDEX. For each row that sees more than `chosen` tokens of
   * the layer, its own included, which is cached: those with the largest sums over heads
   * of weight relu(q . key), the earlier ones of equals, in ascending order; tokens
   * (n_rows, chosen). q (n_rows, heads dim), weights (n_rows, heads). */
  void (*choose)(struct lls_device *, const struct lls_attention_shape *,
                 const struct lls_index_shape *, uint32_t layer, const void *q,
                 const void *weights, uint32_t *tokens);
  /* Writes k and v of every row to its slot in the layer, given by the tables. */
  void (*cache_write)(struct lls_device *, const struct lls_attention_shape *,
                      uint32_t layer, const void *qkv);
  /* Causal attention of every row to its sequence's cached tokens, including its own;
   * out (n_rows, heads head_dim). One call handles decodes and prefill chunks. */
  void (*attention)(struct lls_device *, const struct lls_attention_shape *,
                    uint32_t layer, const void *qkv, void *out);

  /* Optional, with LLS_EXTRA_STATES: layers with a state (states.h), which read and write
   * it as the step's spans say. conv: y (n_rows, channels), NULL: in the columns of x.
   * delta: rows begin with q, k, v; gates (n_rows, 2 value_heads) are b, then a; out
   * (n_rows, value_heads value_dim). space: steps (n_rows, heads), out (n_rows, heads
   * head_dim). norm_gated norms y (n_rows, groups columns) in place. gate_columns: x
   * (n_rows, columns) times the logistic function of gates. */
  void (*conv)(struct lls_device *, const struct lls_conv_shape *, void *x, void *y);
  void (*delta)(struct lls_device *, const struct lls_delta_shape *, const void *rows,
                const void *gates, void *out);
  void (*space)(struct lls_device *, const struct lls_space_shape *, const void *rows,
                const void *steps, void *out);
  void (*norm_gated)(struct lls_device *, const struct lls_gated_norm_shape *,
                     const void *rows, uint32_t n_rows, void *y);
  void (*gate_columns)(struct lls_device *, const void *gates, void *x, uint32_t n_rows,
                       uint32_t columns);

  /* y[i] = x[rows[i]]; rows in host memory */
  void (*gather)(struct lls_device *, const void *x, const uint32_t *rows,
                 uint32_t n_rows, uint32_t columns, void *y);
  /* logits = cap tanh(logits / cap); (n_rows, vocab) */
  void (*cap_logits)(struct lls_device *, float *logits, uint32_t n_rows, uint32_t vocab,
                     float cap);
  /* Samples one token per row of logits; params and out (n_rows) in host memory, out is
   * filled by step_end. May overwrite logits. */
  void (*sample)(struct lls_device *, float *logits, uint32_t n_rows, uint32_t vocab,
                 const struct lls_sampling *const *params, struct lls_sampled *out);
  /* Copies f32 rows to the host, such as logits for a test; waits for them. */
  void (*download)(struct lls_device *, const void *from, void *to, size_t bytes);

  /*
   * Mixtures of experts. experts_create takes over the n matrices, even if it fails.
   * route chooses the `active` best scores (n_rows, experts) of each row: softmax over
   * all, the chosen weights divided by their sum if `normalise`. gather_routed copies
   * rows of x to y (n_rows active, columns) in sorted order; linear_experts multiplies
   * each of them by its expert's matrix, reading only matrices that have rows;
   * gated_experts is like gated, for all sorted rows; combine adds a row's results with
   * their weights, best first, and sets or adds the sum to y (n_rows, columns).
   */
  int (*experts_create)(struct lls_device *, struct lls_weight *const *weights,
                        uint32_t n, struct lls_experts **out, struct lls_error *err);
  void (*experts_destroy)(struct lls_device *, struct lls_experts *);
  void (*route)(struct lls_device *, const float *scores, uint32_t n_rows, bool normalise,
                const struct lls_route *);
  void (*gather_routed)(struct lls_device *, const struct lls_route *, const void *x,
                        uint32_t n_rows, uint32_t columns, void *y);
  void (*linear_experts)(struct lls_device *, const struct lls_experts *,
                         const struct lls_route *, const void *x, uint32_t n_rows,
                         void *y);
  void (*gated_experts)(struct lls_device *, const struct lls_route *,
                        enum lls_activation, const void *x, uint32_t n_rows,
                        uint32_t columns, void *y);
  void (*combine)(struct lls_device *, const struct lls_route *, const void *x,
                  uint32_t n_rows, uint32_t columns, enum lls_linear_store, void *y);

  /*
   * The hidden form; optional pair, NULL = unsupported by this device. X of a token is
   * the input of the layer's q, k, v products (hidden = kv_heads head_dim elements, in
   * a unit block like K's). hidden_write stores h (n_rows, hidden) for the rows of
   * absorbed sequences and of sequences with scratch. restore multiplies X of each
   * sequence's first n_restored tokens by the rows of `qkv` that produce k and v,
   * rotates k (unless rope->rotary_dims = 0), and writes both to the places in the
   * sequence's lists.
   */
  void (*hidden_write)(struct lls_device *, const struct lls_attention_shape *,
                       uint32_t layer, const void *h);
  void (*restore)(struct lls_device *, const struct lls_attention_shape *,
                  const struct lls_rope_shape *, uint32_t layer,
                  const struct lls_weight *qkv);

  /*
   * Attention of absorbed sequences' rows to X instead of K and V, which are linear in
   * X; attention and cache_write skip these rows. rows (n_rows, q k v) is like
   * attention's qkv, out like attention's out. Optional pair, NULL = this device always
   * restores. absorbs returns whether the device can do it with these weights; the
   * engine uses it only if K is not rotated and scores are not capped, without sinks
   * and windows. Ranks, which have a share of X each, sum scores, and concatenate sums
   * of X.
   */
  bool (*absorbs)(const struct lls_device *, const struct lls_weight *qkv,
                  uint32_t head_dim);
  void (*attend_hidden)(struct lls_device *, const struct lls_attention_shape *,
                        uint32_t layer, const struct lls_weight *qkv, const void *rows,
                        void *out);

  /*
   * Tensor parallel ranks (lls_device_options.ranks, core/ranks/ranks.h); optional
   * pair, NULL = this device computes alone. all_reduce: x (n_rows, columns) becomes
   * the sum of all ranks' x. gather_columns: part is this rank's share of the columns
   * of y (n_rows, columns), which rank 0 receives; y is NULL on all other ranks. A
   * failure is an error of the step. With ranks, a unit block of the hidden form holds
   * this rank's share of X.
   */
  void (*all_reduce)(struct lls_device *, void *x, uint32_t n_rows, uint32_t columns);
  void (*gather_columns)(struct lls_device *, const float *part, uint32_t n_rows,
                         uint32_t columns, float *y);

  /*
   * Encoders; optional, NULL = unsupported by this device. Every row attends to all
   * rows of its sequence in this step, including later ones, or with a window to the
   * rows less than `window` before and after it; no pool is read or written, and the
   * sequences need no table. out is like attention's.
   */
  void (*attention_both_ways)(struct lls_device *, const struct lls_attention_shape *,
                              const void *qkv, void *out);

  /*
   * Adapters: adds each group's changes to its rows of y (n_rows of the step, outputs),
   * the product of x (n_rows of the step, inputs). No row is in two groups; lists of rows
   * do not change in a step. scratch has room for LLS_MAX_LOW_RANK times the largest rank
   * of each row.
   */
  void (*adapt)(struct lls_device *, const struct lls_adapted_rows *, uint32_t n_groups,
                const void *x, uint32_t inputs, float *scratch, void *y,
                uint32_t outputs);

  /*
   * Adapters of experts, where the device alone knows the route: as adapt, but rows of
   * the groups are the n_rows rows that were routed, and rows of x and y are in the
   * route's order. scratch has `room` numbers, at least the ranks of all parts. Optional,
   * NULL: adapt is called for the rows of each expert, since the host can read the route.
   */
  void (*adapt_experts)(struct lls_device *, const struct lls_adapted_rows *,
                        uint32_t n_groups, const struct lls_route *, uint32_t n_rows,
                        const void *x, uint32_t inputs, float *scratch, size_t room,
                        void *y, uint32_t outputs);
  /* Writes the n parts of an adapter to memory of this kind, DEVICE or PINNED, before the
   * next step. Optional, NULL: adapt reads the host's memory. Returns 0 or a negative
   * errno; the caller may free the numbers afterwards. */
  int (*adapter_write)(struct lls_device *, enum lls_memory,
                       const struct lls_adapter_numbers *parts, size_t n);

  /* Writes a line about the i-th choice that the device made while it prepared
   * (lls_device.prepares). Returns false if there were fewer. Optional. */
  bool (*chosen)(struct lls_device *, uint32_t i, char *text, size_t size);
};

struct lls_device {
  const struct lls_device_ops *ops;
  enum lls_dtype activation_type;
  bool is_host; /* the device's memory is the host's, as is that of the host tier */
  bool has_own_memory; /* the use of the device's memory can be measured */
  bool has_int8;       /* the device can quantise blocks to INT8, and attend to them */
  bool is_empty;       /* the operations do nothing: one layer represents all */
  /* Operations return before they complete: the caller has time between the last one
   * and step_end. All lists of a step must be in one array, from which they are copied
   * (step->entries). */
  bool asynchronous;
  bool prepares;   /* steps can be prepared to run faster: lls_device_step.prepare */
  uint32_t extras; /* bits of enum lls_device_extra */
};

struct lls_ranks;

struct lls_device_options {
  uint32_t threads; /* CPU: 0 = one per core, within the CPU quota */
  uint32_t
      shares; /* CPU: number of instances on this machine that share this quota; 0 = 1 */
  bool pin;   /* CPU: pin threads to cores */
  uint32_t max_rows;    /* rows of the largest step: scratch memory is sized for it at
                         * creation */
  uint32_t max_columns; /* columns of the widest row of any operation */
  uint32_t max_sequences;
  const char *isa;         /* CPU: a name of LLS_ISA_LEVELS (isa.h); NULL = the best */
  enum lls_dtype numbers;  /* CUDA: the element type of the weights, f32 or another */
  struct lls_ranks *ranks; /* handle of this rank in its group, which must outlive the
                              device; NULL = alone */
  uint32_t index;          /* CUDA: index of the GPU, if there are no ranks */
};

#endif
