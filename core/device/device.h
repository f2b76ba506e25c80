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

#include <llmserve/cache.h> /* enum lls_int8 */

#include "core/base/error.h"

enum lls_dtype {
  LLS_F32,
  LLS_F16,
  LLS_BF16,
  LLS_I8,
  /* Blocks of codes with scales, as in GGUF files (quantised.h). Only tensors of a
   * model have these types; a device converts them to its own format of weights. */
  LLS_Q4_0,
  LLS_Q4_1,
  LLS_Q5_0,
  LLS_Q5_1,
  LLS_Q8_0,
  LLS_Q4_K,
  LLS_Q5_K,
  LLS_Q6_K,
  LLS_MXFP4,
  LLS_Q2_K,
  LLS_Q3_K,
  LLS_IQ4_NL,
  LLS_IQ4_XS,
  LLS_IQ3_XXS,
  LLS_IQ3_S,
  LLS_IQ2_XXS,
  LLS_IQ2_XS,
  LLS_IQ2_S,
  LLS_IQ1_S,
  LLS_IQ1_M,
  LLS_TQ1_0,
  LLS_TQ2_0,
  /* Codes and scales are separate tensors: coded.h. */
  LLS_CODED,
};

/* Returns the bytes of an element of a plain type; quantised.h has those of all types. */
static inline size_t lls_dtype_bytes(enum lls_dtype t)
{
  return t == LLS_F32 ? 4 : t == LLS_I8 ? 1 : 2;
}

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

struct lls_pool_shape {
  uint32_t layers, kv_heads, head_dim;
  uint32_t block_tokens;  /* slots of a unit block in each layer */
  enum lls_dtype element; /* F32 or BF16 (F16 models are cached as BF16 or F32) */
  uint32_t device_units;  /* unit blocks on the device */
  uint32_t host_units;    /* unit blocks on the host, 0 = no host tier */
  uint32_t scratch_units; /* single-layer units for K, V restored from X; 0 = none */
  uint32_t max_context;   /* tokens of a sequence; only needed with scratch_units */
  uint32_t int8;          /* enum lls_int8: the tiers that can hold INT8 blocks with
                           * scales */
};

/* Returns the bytes of a unit block: vectors of block_tokens tokens in all layers. */
static inline size_t lls_unit_bytes(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * s->head_dim * s->block_tokens *
         lls_dtype_bytes(s->element);
}

/* Returns the bytes of the scales of one half unit block, in a tier that has scales:
 * (layers, kv_heads, 2, head_dim) in f16, the steps of the channels and then their
 * minima. */
static inline size_t lls_scale_bytes(const struct lls_pool_shape *s)
{
  return (size_t)s->layers * s->kv_heads * 2 * s->head_dim * 2;
}

static inline bool lls_pool_has_scales(const struct lls_pool_shape *s, bool host)
{
  return s->int8 >= (host ? LLS_INT8_SWAPPED : LLS_INT8_ALL);
}

/* Returns a unit block's bytes in a tier's memory, with the scales of both halves. */
static inline size_t lls_unit_room(const struct lls_pool_shape *s, bool host)
{
  return lls_unit_bytes(s) + (lls_pool_has_scales(s, host) ? 2 * lls_scale_bytes(s) : 0);
}

/* Returns a block's bytes on a copy's side with that element type, with scales. */
static inline size_t lls_block_bytes(const struct lls_pool_shape *s, uint32_t element)
{
  size_t numbers = (size_t)s->layers * s->kv_heads * s->head_dim * s->block_tokens;
  return element == LLS_ELEMENT_INT8 ? numbers + lls_scale_bytes(s) : lls_unit_bytes(s);
}

/* Returns the bytes of a copy that are transferred: those of the narrower side. */
static inline uint64_t lls_copied_bytes(const struct lls_pool_shape *s,
                                        const struct lls_copy *c)
{
  uint32_t element = c->source_element | c->target_element; /* INT8 if one side is INT8 */
  return lls_block_bytes(s, element) * (uint64_t)c->n_slots / s->block_tokens;
}

static inline bool lls_copy_shift_fits(const struct lls_pool_shape *s,
                                       const struct lls_copy *c)
{
  int32_t to = (int32_t)c->slot + c->shift;
  bool same_unit = c->kind == LLS_COPY_DEVICE_TO_DEVICE && c->source == c->target;
  return to >= 0 && (uint32_t)to + c->n_slots <= s->block_tokens &&
         (c->shift == 0 || !same_unit);
}

/*
 * Returns true if a copy lies within the pool and can be carried out. It checks the
 * rules of types.h, for every device.
 */
static inline bool lls_copy_fits(const struct lls_pool_shape *s, const struct lls_copy *c)
{
  bool from_host = c->kind == LLS_COPY_HOST_TO_DEVICE;
  bool to_host = c->kind == LLS_COPY_DEVICE_TO_HOST;
  bool from_int8 = c->source_element == LLS_ELEMENT_INT8;
  bool to_int8 = c->target_element == LLS_ELEMENT_INT8;
  uint64_t sources = from_host ? s->host_units : s->device_units;
  uint64_t targets = to_host ? s->host_units : s->device_units;
  if (c->kind > LLS_COPY_DEVICE_TO_DEVICE || c->order > LLS_COPY_ASYNC ||
      c->source_element > LLS_ELEMENT_INT8 || c->target_element > LLS_ELEMENT_INT8 ||
      (uint32_t)c->slot + c->n_slots > s->block_tokens || !lls_copy_shift_fits(s, c))
    return false;
  if ((from_int8 && !lls_pool_has_scales(s, from_host)) ||
      (to_int8 && !lls_pool_has_scales(s, to_host)) ||
      ((from_int8 || to_int8) && c->n_slots != s->block_tokens))
    return false;
  if (c->kind == LLS_COPY_DEVICE_TO_DEVICE && from_int8 != to_int8 &&
      c->source >> from_int8 == c->target >> to_int8) /* would overwrite bytes still to
                                                       * be read */
    return false;
  return c->source < sources << from_int8 && c->target < targets << to_int8;
}

/*
 * Slots of a unit block in another device's pool, to be transferred to a unit block in
 * this device's pool, in every layer. Slot order is kept. The target has the cache's
 * own type. If the source is INT8, its number is that of a half block: the whole block
 * is transferred unchanged, and converted at the target, so this pool needs no scales.
 */
struct lls_pull {
  uint32_t source, target; /* unit blocks on the devices */
  uint16_t source_slot, target_slot, n_slots;
  uint8_t source_element; /* enum lls_element */
};

static inline bool lls_pull_is_int8(const struct lls_pull *c)
{
  return c->source_element == LLS_ELEMENT_INT8;
}

/* Check each side of a pull against its own pool. */
static inline bool lls_pull_source_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  bool int8 = lls_pull_is_int8(c);
  return c->source_element <= LLS_ELEMENT_INT8 &&
         c->source < (uint64_t)s->device_units << int8 &&
         (!int8 || lls_pool_has_scales(s, false)) &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens;
}

static inline bool lls_pull_target_fits(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  return c->source_element <= LLS_ELEMENT_INT8 && c->target < s->device_units &&
         (uint32_t)c->source_slot + c->n_slots <= s->block_tokens &&
         (uint32_t)c->target_slot + c->n_slots <= s->block_tokens;
}

/* Returns true if unit blocks of the two pools have the same layout. */
static inline bool lls_pools_match(const struct lls_pool_shape *a,
                                   const struct lls_pool_shape *b)
{
  return a->layers == b->layers && a->kv_heads == b->kv_heads &&
         a->head_dim == b->head_dim && a->block_tokens == b->block_tokens &&
         a->element == b->element;
}

static inline uint64_t lls_pulled_bytes(const struct lls_pool_shape *s,
                                        const struct lls_pull *c)
{
  return lls_pull_is_int8(c) ? lls_block_bytes(s, LLS_ELEMENT_INT8)
                             : lls_unit_bytes(s) / s->block_tokens * (uint64_t)c->n_slots;
}

/* One sequence's part of a batch: rows [first_row, first_row + n_rows). */
struct lls_step_sequence {
  /* K and V cover context + n_rows tokens, perhaps without the first ones, which no row
   * attends to */
  const struct lls_block_table *table;
  uint32_t first_row, n_rows;
  uint32_t context; /* tokens cached before this step; row i has position context + i */
  uint32_t
      n_restored; /* number of its first tokens whose X is in table->x: see restore */
  bool scratch;   /* the sequence's K and V lists are of scratch units, rewritten in each
                     layer */
  bool absorbed;  /* it has no K and V lists: its rows attend to X, see attend_hidden */
  uint8_t tidy;   /* LLS_TIDY_*, if the step has entries */
};

/* Returns the first token that a list covers; 0 for an empty list. */
static inline uint32_t lls_list_begin(const struct lls_block_entry *list, uint32_t n)
{
  return n > 0 ? list[0].first_token : 0;
}

/* A list's entries are whole blocks in order, from the left; the last may be partial. */
enum { LLS_TIDY_K = 1, LLS_TIDY_V = 2, LLS_TIDY_X = 4 };

/* The batch of one step as the device sees it. Valid until step_end. */
struct lls_device_step {
  uint32_t n_rows, n_sequences;
  const int32_t *tokens;                     /* (n_rows) ids */
  const int32_t *positions;                  /* (n_rows) */
  const uint32_t *sequence;                  /* (n_rows) index into sequences */
  const struct lls_step_sequence *sequences; /* (n_sequences), decodes and chunks mixed */
  /* For an asynchronous device: all lists of the step, pinned; else NULL. */
  const struct lls_block_entry *entries;
  size_t n_entries;
  /* Nothing is computed, and outputs have arbitrary contents: the device prepares for
   * steps with the same operations. Only for a device with `prepares`. */
  bool prepare;
};

enum lls_norm_kind { LLS_NORM_RMS, LLS_NORM_LAYER };

enum lls_activation {
  LLS_ACT_RELU,
  LLS_ACT_GELU,      /* exact, erf */
  LLS_ACT_GELU_TANH, /* the tanh approximation */
  LLS_ACT_TANH,
  LLS_ACT_SILU,
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
  /* (heads) device memory, NULL = none: for each head the score of an additional token
   * with value 0 */
  const float *sinks;
  float soft_cap; /* 0 = none, else scaled scores become cap tanh(score / cap) */
};

/* RMS norms of q and k: of each head separately, or `whole`: of all heads together,
 * including those of other ranks. */
struct lls_qk_norm_shape {
  const float *q, *k; /* (head_dim), whole: (heads head_dim) and (kv_heads head_dim) */
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
};

struct lls_rope_shape {
  uint32_t head_dim, rotary_dims; /* the first rotary_dims of each head are rotated */
  const float *inverse_frequency; /* (rotary_dims / 2), host memory, scaling applied */
  float attention_factor;         /* multiplies cos and sin (yarn), normally 1 */
};

/* How the next token of one row is sampled; core/device/sampling.h has the order. */
struct lls_sampling;
struct lls_sampled;

struct lls_device;

struct lls_device_ops {
  const char *name; /* "cpu", "cuda", "sim" */

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

  /* Copy the elements of a unit block on the device, lls_unit_bytes, to and from
   * memory, between steps; optional, NULL = unsupported. Return -EINVAL if it is
   * outside of the pool. */
  int (*pool_read)(struct lls_device *, const struct lls_pool *, uint32_t unit, void *to);
  int (*pool_write)(struct lls_device *, struct lls_pool *, uint32_t unit,
                    const void *from);

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

  /*
   * qkv (n_rows, (heads + 2 kv_heads) head_dim): q, then k, then v of each row.
   * norm_qk norms q and k in place. rope rotates q and k in place by the rows' positions,
   * pairs (i, i + rotary_dims/2).
   */
  void (*norm_qk)(struct lls_device *, const struct lls_attention_shape *,
                  const struct lls_qk_norm_shape *, void *qkv);
  void (*rope)(struct lls_device *, const struct lls_attention_shape *,
               const struct lls_rope_shape *, void *qkv);
  /* Writes k and v of every row to its slot in the layer, given by the tables. */
  void (*cache_write)(struct lls_device *, const struct lls_attention_shape *,
                      uint32_t layer, const void *qkv);
  /* Causal attention of every row to its sequence's cached tokens, including its own;
   * out (n_rows, heads head_dim). One call handles decodes and prefill chunks. */
  void (*attention)(struct lls_device *, const struct lls_attention_shape *,
                    uint32_t layer, const void *qkv, void *out);

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
   * rows of its sequence in this step, including later ones; no pool is read or
   * written, and the sequences need no table. out is like attention's.
   */
  void (*attention_both_ways)(struct lls_device *, const struct lls_attention_shape *,
                              const void *qkv, void *out);

  /* Writes a line about the i-th choice that the device made while it prepared
   * (lls_device.prepares). Returns false if there were fewer. Optional. */
  bool (*chosen)(struct lls_device *, uint32_t i, char *text, size_t size);
};

struct lls_device {
  const struct lls_device_ops *ops;
  enum lls_dtype activation_type;
  bool
      is_host; /* the device's memory is the host's: the host tier uses the same memory */
  bool has_own_memory; /* the use of the device's memory can be measured */
  bool has_int8;       /* the device can quantise blocks to INT8, and attend to them */
  bool is_empty;       /* the operations do nothing: one layer represents all */
  /* Operations return before they complete: the caller has time between the last one
   * and step_end. All lists of a step must be in one array, from which they are copied
   * (step->entries). */
  bool asynchronous;
  bool prepares; /* steps can be prepared to run faster: lls_device_step.prepare */
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
