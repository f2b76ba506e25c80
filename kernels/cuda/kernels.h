/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels as the host side of this folder (C) sees them: what each is told, and a
 * function that puts it on a stream. They return 0 or a cudaError_t and never wait.
 *
 * `numbers` says what activations are: LLS_F32 or LLS_BF16. n_rows may be 0. Rows of a
 * step are padded (ops.h): kernels that know the step leave rows beyond its n_rows alone
 * or fill them with anything.
 */
#ifndef LLS_CUDA_KERNELS_H
#define LLS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include "core/device/device.h"
#include "core/device/row_codes.h"
#include "core/device/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the step, in device memory --------------------------------------------------- */

struct lls_cuda_sequence {
  uint32_t first_row, n_rows, context;
  uint32_t k_first, k_count, v_first, v_count; /* of entries */
  uint32_t k_whole,
      v_whole; /* 1: entries are whole blocks in order, filled from the left */
  uint32_t x_first, x_count, x_whole;
  uint32_t scratch; /* 1: K's and V's blocks are of the scratch, of one layer each */
  uint32_t first_restored; /* restored tokens of the sequences before */
};

/*
 * Some rows of one sequence against some of its tokens, by one block for each KV head.
 * The q heads that share the KV head are queries too: query i is row first + i / group of
 * the sequence's part of the step, q head i % group of the KV head's.
 */
struct lls_cuda_item {
  uint32_t sequence, first, n_rows;
  uint32_t begin, end; /* tokens, begin a multiple of 64 */
  uint32_t
      part; /* where its states go, in states of 16 queries; NO_PART: to the output */
  uint32_t first_part, n_parts; /* of the context's items: each as many states further */
};

#define LLS_CUDA_NO_PART UINT32_MAX

enum { LLS_CUDA_K_WHOLE = 1, LLS_CUDA_V_WHOLE = 2, LLS_CUDA_SCRATCH = 4 };

/* The same of up to 16 queries, with all that a block has to know of the sequence: it is
 * one read from here to the entries. */
struct lls_cuda_piece {
  uint32_t row, n_rows; /* of the step */
  uint32_t position;    /* of the first row */
  uint32_t begin, end;
  uint32_t part, first_part, n_parts;
  uint32_t k_first, k_count, k_begin; /* entries, and the token they begin with */
  uint32_t v_first, v_count, v_begin;
  uint32_t flags; /* above */
  uint32_t sinks; /* 1: it has the first of the tokens that the rows see */
};

/* All pointers are the device's. */
struct lls_cuda_plan {
  uint32_t n_large;
  const struct lls_cuda_item *large; /* up to 128 queries */
  uint32_t n_lanes;                  /* blocks for a KV head's pieces */
  const uint32_t *lanes;             /* (n_lanes + 1) each one's first piece */
  const struct lls_cuda_piece *pieces;
};

/* All pointers are the device's. */
struct lls_cuda_step {
  uint32_t n_rows, n_sequences, n_restored;
  const int32_t *tokens, *positions; /* (padded rows) padded with 0 */
  const uint32_t *row_sequence;      /* (n_rows) */
  const uint64_t *k_at, *v_at; /* (n_rows) elements from the pool's beginning to the row's
                                  slot in layer 0, head 0; scratch has but one layer */
  const struct lls_cuda_sequence *sequences; /* (n_sequences) */
  const struct lls_block_entry *entries;
};

/* ---- rows.cu ---------------------------------------------------------------------- */

/* Other ranks have parts of the same rows: first each writes its sums of squares, these
 * are added up, then each takes those instead of its own. */
enum lls_cuda_squares {
  LLS_CUDA_SQUARES_OWN,
  LLS_CUDA_SQUARES_GIVE,
  LLS_CUDA_SQUARES_TAKE
};

struct lls_cuda_norm {
  enum lls_norm_kind kind;
  uint32_t n_rows, columns;
  uint32_t stride; /* from row to row */
  uint32_t parts;  /* of a row, `columns` each, normed one by one */
  float epsilon;
  const float *weight, *bias; /* (columns) bias of LAYER only */
  const void *x;
  void *y; /* may be x */
  enum lls_cuda_squares use;
  uint32_t ranks;
  float *squares; /* (n_rows, 2) every other one */
};

struct lls_cuda_activate {
  enum lls_activation kind;
  uint32_t n_rows, columns;
  uint32_t gated; /* y = act(x[:, :columns]) x[:, columns:], x (n_rows, 2 columns) */
  const void *x;
  void *y; /* (n_rows, columns), = x if not gated */
};

struct lls_cuda_add {
  uint32_t n_rows, columns;
  const void *x;
  void *y;
};

struct lls_cuda_embed {
  uint32_t n_rows, columns;
  uint32_t by_position; /* x += table[position + offset], else x = table[token] */
  int32_t offset;
  float scale;       /* of x = table[token] */
  const void *table; /* of activations' numbers */
  void *x;
};

struct lls_cuda_cap {
  size_t n;
  float cap;
  float *x; /* (n) = cap tanh(x / cap) */
};

struct lls_cuda_gather {
  uint32_t n_rows, columns;
  const uint32_t *rows; /* (n_rows) device memory */
  const void *x;
  void *y;
};

int lls_cuda_run_norm(cudaStream_t, enum lls_dtype numbers, const struct lls_cuda_norm *);
int lls_cuda_run_activate(cudaStream_t, enum lls_dtype numbers,
                          const struct lls_cuda_activate *);
int lls_cuda_run_add(cudaStream_t, enum lls_dtype numbers, const struct lls_cuda_add *);
int lls_cuda_run_embed(cudaStream_t, enum lls_dtype numbers, const struct lls_cuda_step *,
                       const struct lls_cuda_embed *);
int lls_cuda_run_cap(cudaStream_t, const struct lls_cuda_cap *);
int lls_cuda_run_gather(cudaStream_t, enum lls_dtype numbers,
                        const struct lls_cuda_gather *);

/* ---- experts.cu: mixtures of experts; core/device/device.h says what they do ------- */

struct lls_cuda_route {
  uint32_t n_rows, normalise;
  const float *scores; /* (n_rows, experts) */
  struct lls_route route;
};

struct lls_cuda_linear_experts {
  uint32_t experts, outputs, inputs;
  uint32_t stride;       /* from row to row of y */
  const uint32_t *first; /* (experts + 1) */
  const void *const
      *weights; /* (experts) each (outputs, inputs) of activations' numbers */
  const float *const *biases; /* (experts) each (outputs) or NULL */
  const void *x;
  void *y;
  uint32_t entries;    /* rows of all experts */
  uint32_t processors; /* of the GPU */
  uint32_t wide;       /* outputs of a row can be written 16 bytes at a time */
};

struct lls_cuda_combine {
  uint32_t n_rows, columns, add;
  struct lls_route route;
  const void *x;
  void *y;
};

int lls_cuda_run_route(cudaStream_t, const struct lls_cuda_route *);
int lls_cuda_run_linear_experts(cudaStream_t, enum lls_dtype numbers,
                                const struct lls_cuda_linear_experts *);
int lls_cuda_run_combine(cudaStream_t, enum lls_dtype numbers,
                         const struct lls_cuda_combine *);
int lls_cuda_experts_setup(void); /* once for a GPU, before the first run */

/* experts_few.cu, experts_many.cu: products in bf16, of inputs a multiple of 8. */
bool lls_cuda_experts_are_many(const struct lls_cuda_linear_experts *);
int lls_cuda_run_experts_few(cudaStream_t, const struct lls_cuda_linear_experts *);
int lls_cuda_run_experts_many(cudaStream_t, const struct lls_cuda_linear_experts *);
int lls_cuda_experts_few_setup(void);
int lls_cuda_experts_many_setup(void);

/* ---- codes.cu: weights of 4 to 8 bits, and bf16 activations ------------------------ */

/* A matrix in device memory, as codes.h says. */
struct lls_cuda_codes {
  enum lls_codes_form form; /* NO_CODES: there is none */
  uint32_t outputs, inputs;
  const uint8_t *codes;
  const uint16_t *scales;
  const float *factors; /* (outputs) of the scales */
  const float *bias;    /* (outputs) NULL: none */
};

/* Products with codes as they lie. Of experts: each with its rows of x, and of y. */
struct lls_cuda_codes_product {
  struct lls_cuda_codes w;              /* of experts: alike in form and shape */
  const struct lls_cuda_codes *experts; /* (n_experts) device memory, or NULL */
  const uint32_t *first;                /* (n_experts + 1) */
  uint32_t n_experts, n_rows;           /* n_rows is of w alone */
  uint32_t first_output;                /* of those that are taken, w.outputs in all */
  uint32_t stride;                      /* from row to row of y */
  uint32_t add, relu, f32;              /* as lls_cuda_linear has them */
  uint32_t processors;                  /* of the GPU, beside w alone */
  const void *x;                        /* (n_rows, inputs), inputs a multiple of 8 */
  void *y;
};

/* Rows up to which multiplying by codes, 64 rows at a time, should beat making them wide.
 */
#define LLS_CUDA_FEW 256

int lls_cuda_codes_setup(void); /* once for a GPU, before the first run */
/* Rows up to which codes_product is for a matrix of that form, not few_product. */
uint32_t lls_cuda_codes_rows(enum lls_codes_form);
int lls_cuda_run_codes_product(cudaStream_t, const struct lls_cuda_codes_product *);
/* Outputs [first, first + n) as numbers: to (n, inputs) bf16. */
int lls_cuda_run_widen(cudaStream_t, const struct lls_cuda_codes *, uint32_t first,
                       uint32_t n, void *to);

/* ---- few.cu: few rows, by codes or by bf16 weights --------------------------------- */

#define LLS_CUDA_FEW_ROWS    32  /* of a product */
#define LLS_CUDA_FEW_OUTPUTS 128 /* that a block has the sums of */
#define LLS_CUDA_FEW_SHARE   4   /* stages that a block should have at least */

struct lls_cuda_few_product {
  struct lls_cuda_codes w; /* NO_CODES: bf16 (outputs, inputs), no factors */
  uint32_t first_output;   /* as lls_cuda_codes_product has these */
  uint32_t n_rows;         /* up to FEW_ROWS */
  uint32_t stride, add, relu, f32;
  const void *x;
  void *y;
  uint32_t blocks;     /* two for each multiprocessor */
  uint32_t stages;     /* of shared memory; run_few_product says how many */
  size_t shared_bytes; /* of a multiprocessor */
  float *parts;        /* (blocks, 2, FEW_OUTPUTS, FEW_ROWS) anything */
  uint32_t *finished;  /* (blocks) zeros between launches */
};

int lls_cuda_few_setup(size_t shared_bytes); /* once for a GPU, before the first run */
int lls_cuda_run_few_product(cudaStream_t, const struct lls_cuda_few_product *);

/* ---- convert.cu: weights ---------------------------------------------------------- */

/* n numbers of any type to f32 or bf16. */
int lls_cuda_run_convert(cudaStream_t, enum lls_dtype from, const void *x,
                         enum lls_dtype to, void *y, size_t n);
/* The random numbers of a view without data, n of rows of `columns`, `stride` apart: each
 * is that of (seed, its place), so that ranks have parts of the same matrix. */
int lls_cuda_run_fill(cudaStream_t, uint64_t seed, size_t columns, size_t stride,
                      enum lls_dtype to, void *y, size_t n);

/* ---- cache.cu: rope and writing to the cache -------------------------------------- */

/* (units, layers, kv_heads, block_tokens, head_dim), and from element scratch_at on,
 * units of one layer. */
struct lls_cuda_pool {
  void *data;
  uint16_t *scales; /* of halves of units, (2 units, layers, kv_heads, 2, head_dim) f16:
                       steps, least numbers; NULL: no int8 blocks */
  uint64_t scratch_at;
  enum lls_dtype element;
  uint32_t layers, kv_heads, block_tokens, head_dim;
};

#define LLS_CUDA_ROTARY_MAX 256

struct lls_cuda_angles {
  uint32_t n_rows, pairs;
  uint32_t from_zero; /* rows are positions 0, 1, ...; else those of the step */
  float factor;
  float *angles; /* (n_rows, 2, pairs) cosines, then sines */
  float frequency[LLS_CUDA_ROTARY_MAX / 2];
};

struct lls_cuda_rope_write {
  uint32_t n_rows, heads, kv_heads, head_dim;
  uint32_t pairs; /* 0: no rope */
  uint32_t layer;
  uint32_t write;      /* 0: no writing */
  const float *angles; /* of lls_cuda_angles */
  void *qkv;
};

int lls_cuda_run_angles(cudaStream_t, const struct lls_cuda_step *,
                        const struct lls_cuda_angles *);
int lls_cuda_run_rope_write(cudaStream_t, enum lls_dtype numbers,
                            const struct lls_cuda_step *, const struct lls_cuda_pool *,
                            const struct lls_cuda_rope_write *);

/* ---- hidden.cu: the hidden form --------------------------------------------------- */

/* Restored tokens of all sequences are counted through; a call takes n_rows from first.
 */
struct lls_cuda_restore {
  uint32_t first, n_rows;
  uint32_t layer;
  uint32_t pairs;      /* of k, 0: no rope */
  const float *angles; /* (positions, 2, pairs) of lls_cuda_angles, from_zero */
  void *x;             /* (n_rows, kv columns) */
  void *kv;            /* (n_rows, 2 kv columns) k, then v */
};

/* The rows h (n_rows, kv columns), `columns` apart, of sequences with scratch to their X
 * blocks. */
int lls_cuda_run_hidden_write(cudaStream_t, enum lls_dtype numbers,
                              const struct lls_cuda_step *, const struct lls_cuda_pool *,
                              uint32_t layer, uint32_t n_rows, uint32_t columns,
                              const void *h);
/* X of the tokens to x; after the product, kv to where the tokens' K and V are. */
int lls_cuda_run_restore_read(cudaStream_t, enum lls_dtype numbers,
                              const struct lls_cuda_step *, const struct lls_cuda_pool *,
                              const struct lls_cuda_restore *);
int lls_cuda_run_restore_write(cudaStream_t, enum lls_dtype numbers,
                               const struct lls_cuda_step *, const struct lls_cuda_pool *,
                               const struct lls_cuda_restore *);

/* ---- int8.cu: blocks quantised and made wide again ------------------------------- */

#define LLS_CUDA_CONVERTED 32 /* blocks of a call */

/* Block `from` to block `to`, counted from where each side begins. */
struct lls_cuda_block_pair {
  uint32_t from, to;
};

/* The side with scales is of int8 blocks, half as many bytes apart as the other's. */
struct lls_cuda_conversion {
  const void *from;
  void *to;
  const uint16_t *from_scales; /* NULL: quantise */
  uint16_t *to_scales;         /* NULL: make wide */
  uint32_t n;
  struct lls_cuda_block_pair blocks[LLS_CUDA_CONVERTED]; /* (n) none read and written */
};

int lls_cuda_run_conversion(cudaStream_t, const struct lls_cuda_pool *,
                            const struct lls_cuda_conversion *);

/* Slots of an int8 block, wherever this GPU reaches it, to those of another block. All
 * pointers are to the first of `heads` heads. */
struct lls_cuda_widening {
  const uint8_t *from;    /* (heads, block_tokens, head_dim) */
  const uint16_t *scales; /* (heads, 2, head_dim) */
  void *to;               /* (heads, block_tokens, head_dim) */
  uint32_t heads, from_slot, to_slot, n_slots;
};

int lls_cuda_run_widening(cudaStream_t, const struct lls_cuda_pool *,
                          const struct lls_cuda_widening *);

/* ---- slots.cu: a few slots of many blocks ------------------------------------------ */

#define LLS_CUDA_SLOT_RUNS  64 /* of a launch */
#define LLS_CUDA_SLOT_HEADS 64 /* blocks of threads for one of them */

struct lls_cuda_slot_run {
  const char *from; /* its first head, and the same of the others head_bytes apart */
  char *to;
  size_t bytes; /* of a head */
};

struct lls_cuda_slots {
  size_t head_bytes, slot_bytes; /* of the latter all offsets are multiples, it of 4 */
  uint32_t heads, n;
  struct lls_cuda_slot_run runs[LLS_CUDA_SLOT_RUNS]; /* (n) */
};

int lls_cuda_run_slots(cudaStream_t, const struct lls_cuda_slots *);

/* ---- attention.cu, attention_*.cu ---------------------------------------------- */

struct lls_cuda_attention {
  uint32_t n_rows; /* padded */
  uint32_t plan;   /* number of the one that it is shared out by */
  uint32_t heads, kv_heads, head_dim, window, layer;
  float scale, soft_cap;
  const float *sinks; /* (heads) or NULL */
  const void *qkv;
  void *out;
};

/* How many blocks each kernel gets. Those of the kernel for Hopper, which has the large
 * items where `hopper` is not 0 and they are such as it takes, take one after the other.
 */
struct lls_cuda_grid {
  uint32_t small, large, hopper;
  uint32_t queries; /* of a small piece at most: 8 or 16 */
};

/* Parts of results of contexts that are shared out, in device memory. */
struct lls_cuda_states {
  float *states;      /* (max_states) */
  uint32_t *finished; /* (max_states / STATE_FLOATS(64)) zeros between launches: how many
                         parts are there, at the first part's place */
  size_t max_states;  /* floats */
};

#define LLS_CUDA_SMALL 16
#define LLS_CUDA_LARGE 128
#define LLS_CUDA_TILE  64 /* tokens taken at a time */

/* A state of 16 queries: values (16, head_dim), largest scores (16), sums (16), as
 * kernels/cpu/attention.h has them. */
#define LLS_CUDA_STATE_FLOATS(head_dim) ((size_t)LLS_CUDA_SMALL * ((head_dim) + 2))

/* Tensor cores: bf16 activations and cache, some sizes of heads, groups up to 128. */
bool lls_cuda_attention_fits(enum lls_dtype numbers, const struct lls_cuda_pool *,
                             const struct lls_cuda_attention *);
int lls_cuda_attention_setup(void); /* once for a GPU, before the first run */
int lls_cuda_run_attention(cudaStream_t, const struct lls_cuda_step *,
                           const struct lls_cuda_plan *, const struct lls_cuda_pool *,
                           const struct lls_cuda_grid *, const struct lls_cuda_states *,
                           const struct lls_cuda_attention *);
/* Blocks for pieces that a multiprocessor has at once. */
int lls_cuda_attention_at_once(const struct lls_cuda_pool *);
/* The same three where a pool has int8 blocks. */
int lls_cuda_attention_int8_setup(void);
int lls_cuda_attention_int8_at_once(const struct lls_cuda_pool *);
int lls_cuda_run_attention_int8(cudaStream_t, const struct lls_cuda_step *,
                                const struct lls_cuda_plan *,
                                const struct lls_cuda_pool *,
                                const struct lls_cuda_grid *,
                                const struct lls_cuda_states *,
                                const struct lls_cuda_attention *);
/* attention_hopper.cu: sets up the kernel for large items on GPUs of sm_90; there:
 * whether the GPU's own code of it is in this build, so that it can be run. */
int lls_cuda_attention_hopper_setup(bool *there);
/* Does it take the large items? They are grid->large blocks' otherwise. */
bool lls_cuda_attention_hopper_fits(const struct lls_cuda_pool *,
                                    const struct lls_cuda_grid *,
                                    const struct lls_cuda_attention *);
int lls_cuda_run_attention_hopper(cudaStream_t, const struct lls_cuda_step *,
                                  const struct lls_cuda_plan *,
                                  const struct lls_cuda_pool *,
                                  const struct lls_cuda_grid *,
                                  const struct lls_cuda_states *,
                                  const struct lls_cuda_attention *);
/* Everything else, without a plan. */
int lls_cuda_run_attention_plain(cudaStream_t, enum lls_dtype numbers,
                                 const struct lls_cuda_step *,
                                 const struct lls_cuda_pool *,
                                 const struct lls_cuda_attention *);

/* ---- sample.cu, sample_draw.cu ----------------------------------------------------- */

/* A logit that is changed before the draw. */
struct lls_cuda_adjustment {
  int32_t token;
  uint32_t outputs; /* how often the answer has the token so far */
  float bias;       /* added if is_bias, else the penalties are applied */
  uint32_t is_bias;
  float raw; /* the kernel's: the logit as it came */
};

#define LLS_CUDA_MAX_BANNED 16 /* of a row; its mask leaves the others out */

struct lls_cuda_draw {        /* one row */
  uint32_t drawn;             /* 0: greedy, or scored */
  uint32_t by_count, by_mass; /* of what is drawn: top_k, top_p leave some out */
  float temperature, top_p, min_p;
  int32_t top_k;
  uint32_t n_banned;
  int32_t banned[LLS_CUDA_MAX_BANNED]; /* (n_banned) */
  float repetition_penalty, presence_penalty, frequency_penalty;
  uint32_t want_logprob, n_logprobs;
  uint64_t uniform; /* of [0, 1): in units of 2^-64 */
  uint32_t first_adjustment, n_penalised,
      n_biased; /* in this order, tokens once in each */
  uint32_t
      scored; /* 1: nothing is drawn, `target` is looked up in the logits as they came */
  uint32_t target;
  const uint32_t *allowed; /* NULL, or a bit for each token, in device memory */
};

#define LLS_CUDA_SAMPLE_ROWS 128 /* that are drawn at once */

/* One token for each row of logits, which may be overwritten; all in device memory. */
struct lls_cuda_sample {
  uint32_t n_rows, vocab;
  uint32_t drawn, filtered, twice; /* is any row: not greedy; with top_k or top_p; both */
  float *logits;                   /* (n_rows, vocab) */
  const struct lls_cuda_draw *draws; /* (n_rows) */
  struct lls_cuda_adjustment *adjustments;
  struct lls_sampled *out; /* (n_rows) */
  void *room;              /* lls_cuda_sample_room of them, zeros before the first use */
};

/* Bytes of working space for up to so many rows and tokens. */
size_t lls_cuda_sample_room(uint32_t n_rows, uint32_t vocab);
int lls_cuda_run_sample(cudaStream_t, const struct lls_cuda_sample *);
/* Goes on with up to SAMPLE_ROWS rows whose largest logits are known. */
int lls_cuda_run_draw(cudaStream_t, const struct lls_cuda_sample *);

#ifdef __cplusplus
}
#endif

#endif
