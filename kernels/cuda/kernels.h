/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels as the host side of this folder (C) sees them: each kernel's parameters,
 * and a function that puts it on a stream. The functions return 0 or a cudaError_t and
 * never wait.
 *
 * `numbers` is the activations' type: LLS_F32 or LLS_BF16. n_rows may be 0. Rows of a
 * step are padded (ops.h): kernels that read the step skip rows beyond its n_rows, or
 * fill them with arbitrary values.
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
  /* range of the step's block table entries */
  uint32_t kv_first, kv_count;
  uint32_t kv_whole; /* 1: entries are whole blocks in order, filled from slot 0 on */
  uint32_t x_first, x_count, x_whole;
  uint32_t scratch; /* 1: the blocks of K and V are scratch blocks, of one layer each */
  uint32_t first_restored; /* number of restored tokens in the sequences before */
};

/*
 * Attention of some rows of one sequence to some of its tokens, computed by one thread
 * block for each KV head. The q heads that share the KV head are queries too: query i
 * is row first + i / group of the sequence's part of the step, q head i % group of the
 * KV head's.
 */
struct lls_cuda_item {
  uint32_t sequence, first, n_rows;
  uint32_t begin, end; /* range of tokens; begin is a multiple of 64 */
  uint32_t
      /* index of its first state, in states of 16 queries; NO_PART: it writes the
       * output directly */
      part;
  /* the context's n_parts items begin at state first_part, each as many states
   * further */
  uint32_t first_part, n_parts;
};

#define LLS_CUDA_NO_PART UINT32_MAX

enum { LLS_CUDA_WHOLE = 1, LLS_CUDA_SCRATCH = 2 };

/* The work of a thread block: up to 16 queries, with everything that it needs to know
 * of the sequence, so that it reads only this before the block table entries. */
struct lls_cuda_piece {
  uint32_t row, n_rows; /* rows of the step */
  uint32_t position;    /* position of the first row */
  uint32_t begin, end;
  uint32_t part, first_part, n_parts;
  uint32_t kv_first, kv_count, kv_begin; /* range of entries, their first token */
  uint32_t flags;                        /* see above */
  uint32_t sinks; /* 1: it contains the first token that the rows see */
};

/* A plan of attention. All pointers are device memory. */
struct lls_cuda_plan {
  uint32_t n_large;
  const struct lls_cuda_item *large; /* items of up to 128 queries */
  uint32_t n_lanes;                  /* thread blocks for a KV head's pieces */
  const uint32_t *lanes;             /* (n_lanes + 1) first piece of each lane */
  const struct lls_cuda_piece *pieces;
};

/* A step, as one group of layers sees it: sequences and kv_at differ between groups. All
 * pointers are device memory. */
struct lls_cuda_step {
  uint32_t n_rows, n_sequences, n_restored;
  const int32_t *tokens, *positions; /* (padded rows) with 0 in padding rows */
  const uint32_t *row_sequence;      /* (n_rows) */
  /* (n_rows) elements from the pool's beginning to the row's slot in K's layer 0, head 0;
   * scratch blocks have only one layer */
  const uint64_t *kv_at;
  const struct lls_cuda_sequence *sequences; /* (n_sequences) */
  const struct lls_block_entry *entries;
  /* Chain i is spans [chains[i], chains[i + 1]): the rows of one sequence whose states
   * they rewrite. */
  uint32_t n_chains;
  const uint32_t *chains; /* (n_chains + 1) */
  const struct lls_state_span *spans;
};

/* ---- rows.cu ---------------------------------------------------------------------- */

/* How a norm that ranks share runs: first each rank writes its sums of squares; these
 * are added up over the ranks; then the norm uses the sums instead of its own. */
enum lls_cuda_squares {
  LLS_CUDA_SQUARES_OWN,
  LLS_CUDA_SQUARES_GIVE,
  LLS_CUDA_SQUARES_TAKE
};

struct lls_cuda_norm {
  enum lls_norm_kind kind;
  uint32_t n_rows, columns;
  uint32_t stride; /* elements from row to row */
  uint32_t parts;  /* parts of a row, `columns` each, normed separately */
  float epsilon;
  const float *weight, *bias; /* (columns) bias for LAYER only */
  const void *x;
  void *y; /* may equal x */
  enum lls_cuda_squares use;
  uint32_t ranks;
  float *squares; /* (n_rows, 2); this norm uses one of a row's two */
};

struct lls_cuda_activate {
  enum lls_activation kind;
  uint32_t n_rows, columns;
  /* 1: y = act(x) up; without `up` x is (n_rows, 2 columns), of which the second half is
   * up */
  uint32_t gated;
  const void *x, *up;
  void *y; /* (n_rows, columns), equals x if not gated */
};

struct lls_cuda_add {
  uint32_t n_rows, columns;
  const void *x;
  void *y;
};

struct lls_cuda_embed {
  uint32_t n_rows, columns;
  uint32_t by_position; /* entry: position + offset of the row, else its token */
  uint32_t add;         /* x += scale table[entry], else x = scale table[entry] */
  uint32_t entries;     /* an entry that is not below this is entry 0; 0: no limit */
  int32_t offset;
  float scale;
  const void *table; /* values in the activations' type */
  void *x;
};

struct lls_cuda_cap {
  size_t n;
  float cap;
  float *x; /* (n) x = cap tanh(x / cap) */
};

struct lls_cuda_gather {
  uint32_t n_rows, columns;
  const uint32_t *rows; /* (n_rows) device memory */
  /* A row of y is multiplied by its weight: of its row's `active` ones the one whose
   * place is the row of y (struct lls_route). NULL: by nothing. */
  const float *weight;
  const uint32_t *place;
  uint32_t active;
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
  uint32_t stride;       /* elements from row to row of y */
  const uint32_t *first; /* (experts + 1) */
  const void *const
      *weights; /* (experts) each (outputs, inputs) in the activations' type */
  const float *const *biases; /* (experts) each (outputs) or NULL */
  const void *x;
  void *y;
  /* Heads of latent attention are experts, too. All have the same `each` rows, so that
   * `first` is not read; in a row the numbers of a head begin x_head and y_head elements
   * after those of the head before. 0: rows lie sorted by expert. */
  uint32_t each, x_head, y_head;
  uint32_t x_stride;   /* elements from row to row of x */
  uint32_t entries;    /* rows of all experts */
  uint32_t processors; /* multiprocessors of the GPU */
  uint32_t wide;       /* 1: outputs of a row can be written 16 bytes at a time */
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
int lls_cuda_experts_setup(void); /* called once for a GPU, before the first run */

/* experts_few.cu, experts_many.cu: products in bf16, for inputs that are a multiple of
 * 8. */
bool lls_cuda_experts_are_many(const struct lls_cuda_linear_experts *);
int lls_cuda_run_experts_few(cudaStream_t, const struct lls_cuda_linear_experts *);
int lls_cuda_run_experts_many(cudaStream_t, const struct lls_cuda_linear_experts *);
int lls_cuda_experts_few_setup(void);
int lls_cuda_experts_many_setup(void);

/* ---- codes.cu: weights of 4 to 8 bits, and bf16 activations ------------------------ */

/* A matrix in device memory, laid out as codes.h describes. */
struct lls_cuda_codes {
  enum lls_codes_form form; /* NO_CODES: plain bf16 */
  uint32_t outputs, inputs;
  const uint8_t *codes;
  const uint16_t *scales;
  const float *factors; /* (outputs) factors of the scales */
  const float *bias;    /* (outputs) NULL if none */
};

/* Products with codes in their stored form. With experts, each expert multiplies its
 * rows of x. */
struct lls_cuda_codes_product {
  /* with experts: the form and shape that all of them have */
  struct lls_cuda_codes w;
  /* (n_experts) device memory, or NULL without experts */
  const struct lls_cuda_codes *experts;
  const uint32_t *first;      /* (n_experts + 1) */
  uint32_t n_experts, n_rows; /* n_rows: without experts only */
  /* the first output computed; w.outputs is their number */
  uint32_t first_output;
  uint32_t entries;        /* with experts: rows of all of them */
  uint32_t stride;         /* elements from row to row of y */
  uint32_t add, relu, f32; /* flags of lls_cuda_linear */
  /* multiprocessors of the GPU; without experts only */
  uint32_t processors;
  const void *x; /* (n_rows, inputs), inputs a multiple of 8 */
  void *y;
};

/* Up to this many rows multiplying by codes, 64 rows at a time, should be faster than
 * widening them. */
#define LLS_CUDA_FEW 256

int lls_cuda_codes_setup(void); /* called once for a GPU, before the first run */
/* Returns the most rows for which codes_product is faster than few_product with that
 * form. */
uint32_t lls_cuda_codes_rows(enum lls_codes_form);
int lls_cuda_run_codes_product(cudaStream_t, const struct lls_cuda_codes_product *);
/* Widens outputs [first, first + n): to (n, inputs) bf16. */
int lls_cuda_run_widen(cudaStream_t, const struct lls_cuda_codes *, uint32_t first,
                       uint32_t n, void *to);

/* ---- few.cu: few rows, by codes or by bf16 weights --------------------------------- */

#define LLS_CUDA_FEW_ROWS    32  /* most rows of a product */
#define LLS_CUDA_FEW_OUTPUTS 128 /* outputs of a tile, whose sums one block holds */
#define LLS_CUDA_FEW_SHARE   4   /* stages that a block should have at least */

struct lls_cuda_few_product {
  struct lls_cuda_codes w; /* NO_CODES: bf16 (outputs, inputs) without factors */
  uint32_t first_output;   /* first output, as in lls_cuda_codes_product */
  uint32_t n_rows;         /* rows, at most FEW_ROWS */
  uint32_t stride, add, relu, f32;
  const void *x;
  void *y;
  uint32_t blocks;     /* two a multiprocessor */
  uint32_t stages;     /* stages in shared memory; run_few_product sets it */
  size_t shared_bytes; /* shared memory of a multiprocessor */
  float *parts;        /* (blocks, 2, FEW_OUTPUTS, FEW_ROWS) scratch */
  uint32_t *finished;  /* (blocks) all 0 between launches */
};

/* called once for a GPU, before the first run */
int lls_cuda_few_setup(size_t shared_bytes);
int lls_cuda_run_few_product(cudaStream_t, const struct lls_cuda_few_product *);

/* ---- convert.cu: weights ---------------------------------------------------------- */

/* Converts n values of any type to f32 or bf16. */
int lls_cuda_run_convert(cudaStream_t, enum lls_dtype from, const void *x,
                         enum lls_dtype to, void *y, size_t n);
/* Fills n values of a random weight (a view without data), in rows of `columns`,
 * `stride` apart. Each value depends on (seed, its place) only, so that ranks have
 * parts of the same matrix. */
int lls_cuda_run_fill(cudaStream_t, uint64_t seed, size_t columns, size_t stride,
                      enum lls_dtype to, void *y, size_t n);

/* ---- cache.cu: rope and writing to the cache -------------------------------------- */

/* The device's units, as one group of layers sees them. A block is (2, layers, kv_heads,
 * block_tokens, head_dim), K then V; in int8 these are bytes, and scales (2, layers,
 * kv_heads, 2, head_dim) in f16 follow: steps, then least values. Of a latent model there
 * is K alone, in which V is. From element scratch_at on, scratch blocks of one layer. */
struct lls_cuda_pool {
  void *data;
  uint64_t unit; /* elements */
  uint64_t scratch_at;
  uint32_t int8; /* 1: some blocks may be int8 */
  enum lls_dtype element;
  uint32_t layers, kv_heads, block_tokens, head_dim;
  uint32_t sides; /* 2, or 1 in a latent model */
};

#define LLS_CUDA_ROTARY_MAX 512

struct lls_cuda_angles {
  uint32_t n_rows, pairs;
  /* 1: rows are positions 0, 1, ...; 0: the positions of the step's rows */
  uint32_t from_zero;
  float factor;
  float *angles; /* (n_rows, 2, pairs) cosines, then sines */
  float frequency[LLS_CUDA_ROTARY_MAX / 2];
};

struct lls_cuda_rope_write {
  /* heads of q, k and v in a row */
  uint32_t n_rows, heads, kv_heads, v_heads, head_dim;
  uint32_t pairs;        /* 0: no rotation */
  uint32_t turned;       /* the first dim that is rotated */
  uint32_t group, layer; /* the layer's number in its group */
  uint32_t write;        /* 0: K and V are not written */
  const float *angles;   /* angles that lls_cuda_angles computed */
  void *qkv;
};

int lls_cuda_run_angles(cudaStream_t, const struct lls_cuda_step *,
                        const struct lls_cuda_angles *);
int lls_cuda_run_rope_write(cudaStream_t, enum lls_dtype numbers,
                            const struct lls_cuda_step *, const struct lls_cuda_pool *,
                            const struct lls_cuda_rope_write *);

/* ---- hidden.cu: the hidden form --------------------------------------------------- */

/* Restored tokens are numbered across all sequences; a call processes n_rows of them
 * from `first` on. */
struct lls_cuda_restore {
  uint32_t first, n_rows;
  uint32_t layer;
  uint32_t pairs;      /* rotated pairs of k; 0: no rotation */
  const float *angles; /* (positions, 2, pairs) from lls_cuda_angles, with from_zero */
  void *x;             /* (n_rows, kv columns) */
  void *kv;            /* (n_rows, 2 kv columns) k, then v */
};

/* Writes rows h (n_rows, kv columns), `columns` apart, of sequences with scratch blocks
 * to their X blocks. */
int lls_cuda_run_hidden_write(cudaStream_t, enum lls_dtype numbers,
                              const struct lls_cuda_step *, const struct lls_cuda_pool *,
                              uint32_t layer, uint32_t n_rows, uint32_t columns,
                              const void *h);
/* restore_read copies the tokens' X to x; after the product, restore_write copies kv to
 * the tokens' K and V. */
int lls_cuda_run_restore_read(cudaStream_t, enum lls_dtype numbers,
                              const struct lls_cuda_step *, const struct lls_cuda_pool *,
                              const struct lls_cuda_restore *);
int lls_cuda_run_restore_write(cudaStream_t, enum lls_dtype numbers,
                               const struct lls_cuda_step *, const struct lls_cuda_pool *,
                               const struct lls_cuda_restore *);

/* ---- int8.cu: blocks quantised and made wide again ------------------------------- */

#define LLS_CUDA_CONVERTED 32 /* most blocks in a call */

/* Converts block `from` to block `to`; each is an index into its own array. */
struct lls_cuda_block_pair {
  uint32_t from, to;
};

/* A conversion between int8 blocks and the cache's element. */
struct lls_cuda_conversion {
  const void *from;
  void *to;
  size_t from_stride, to_stride; /* bytes that an index stands for */
  uint32_t quantise;             /* 1: to int8; 0: from int8 */
  uint32_t n;
  /* (n) none is both read and written */
  struct lls_cuda_block_pair blocks[LLS_CUDA_CONVERTED];
};

int lls_cuda_run_conversion(cudaStream_t, const struct lls_cuda_pool *,
                            const struct lls_cuda_conversion *);

/* Widens slots of an int8 block, in any memory that this GPU reaches, into another
 * block. All pointers are to the first of `heads` heads. */
struct lls_cuda_widening {
  const uint8_t *from;    /* (heads, block_tokens, head_dim) */
  const uint16_t *scales; /* (heads, 2, head_dim) */
  void *to;               /* (heads, block_tokens, head_dim) */
  uint32_t heads, from_slot, to_slot, n_slots;
};

int lls_cuda_run_widening(cudaStream_t, const struct lls_cuda_pool *,
                          const struct lls_cuda_widening *);

/* ---- slots.cu: a few slots of many blocks ------------------------------------------ */

#define LLS_CUDA_SLOT_RUNS  64 /* most runs in a launch */
#define LLS_CUDA_SLOT_HEADS 64 /* thread blocks for each run */

struct lls_cuda_slot_run {
  const char *from; /* the run's first head; the following heads are head_bytes apart */
  char *to;
  size_t bytes; /* bytes in each head */
};

struct lls_cuda_slots {
  /* head_bytes apart from head to head; all offsets are multiples of slot_bytes, which
   * is a multiple of 4 */
  size_t head_bytes, slot_bytes;
  uint32_t heads, n;
  struct lls_cuda_slot_run runs[LLS_CUDA_SLOT_RUNS]; /* (n) */
};

int lls_cuda_run_slots(cudaStream_t, const struct lls_cuda_slots *);

/* ---- attention.cu, attention_*.cu ---------------------------------------------- */

struct lls_cuda_attention {
  uint32_t n_rows; /* padded number of rows */
  uint32_t plan;   /* number of its plan */
  uint32_t heads, kv_heads, head_dim, window;
  uint32_t chunked;      /* 1: a row sees tokens from the last multiple of `window` on */
  uint32_t columns;      /* of a row of qkv */
  uint32_t rank;         /* the part of K that is V, where known; 0: V is of its own */
  uint32_t group, layer; /* the layer's number in its group */
  float scale, soft_cap;
  uint32_t several;    /* 1: sequences may have more than one row, such as guesses */
  const float *sinks;  /* (heads) or NULL */
  const float *slopes; /* (heads) of ALiBi, or NULL */
  const void *qkv;
  void *out;
};

#ifdef __CUDACC__
#define LLS_CUDA_BOTH __host__ __device__
#else
#define LLS_CUDA_BOTH
#endif

/* The oldest token that a row at a position sees. */
static inline LLS_CUDA_BOTH uint32_t lls_cuda_oldest(const struct lls_cuda_attention *a,
                                                     uint32_t position)
{
  if (a->window == 0)
    return 0;
  if (a->chunked != 0)
    return position - position % a->window;
  return position >= a->window ? position + 1 - a->window : 0;
}

/* How many blocks each kernel gets. If `hopper` is not 0 and the kernel for Hopper
 * supports the large items, that many blocks of it process them one after the other. */
struct lls_cuda_grid {
  uint32_t small, large, hopper;
  uint32_t queries; /* most queries of a small piece: 8 or 16 */
};

/* Partial results of contexts that are split among blocks, in device memory. */
struct lls_cuda_states {
  float *states; /* (max_states) */
  /* (max_states / STATE_FLOATS(64)) how many parts are written, at the index of the
   * first part; all 0 between launches */
  uint32_t *finished;
  size_t max_states; /* capacity of states, in floats */
};

#define LLS_CUDA_HEAD_MAX 640 /* dims of a head */

#define LLS_CUDA_SMALL 16
#define LLS_CUDA_LARGE 128
#define LLS_CUDA_TILE  64 /* tokens of a tile of K and V */

/* A state of 16 queries: values (16, head_dim), largest scores (16), sums (16), as in
 * kernels/cpu/attention.h. */
#define LLS_CUDA_STATE_FLOATS(head_dim) ((size_t)LLS_CUDA_SMALL * ((head_dim) + 2))

/* Can the tensor-core kernels be used? They need bf16 activations and cache, one of
 * some head sizes, and groups up to 128. */
bool lls_cuda_attention_fits(enum lls_dtype numbers, const struct lls_cuda_pool *,
                             const struct lls_cuda_attention *);
int lls_cuda_attention_setup(void); /* called once for a GPU, before the first run */
int lls_cuda_run_attention(cudaStream_t, const struct lls_cuda_step *,
                           const struct lls_cuda_plan *, const struct lls_cuda_pool *,
                           const struct lls_cuda_grid *, const struct lls_cuda_states *,
                           const struct lls_cuda_attention *);
/* Returns the blocks of the kernel for pieces that a multiprocessor runs at once. */
int lls_cuda_attention_at_once(const struct lls_cuda_pool *);
/* Like the three functions above, but for pools with int8 blocks. */
int lls_cuda_attention_int8_setup(void);
int lls_cuda_attention_int8_at_once(const struct lls_cuda_pool *);
int lls_cuda_run_attention_int8(cudaStream_t, const struct lls_cuda_step *,
                                const struct lls_cuda_plan *,
                                const struct lls_cuda_pool *,
                                const struct lls_cuda_grid *,
                                const struct lls_cuda_states *,
                                const struct lls_cuda_attention *);
/* attention_hopper.cu: sets up the kernel for large items on GPUs of sm_90. *there:
 * this build contains code for this GPU, so the kernel can be used. */
int lls_cuda_attention_hopper_setup(bool *there);
/* Does the kernel support these large items? Otherwise grid->large blocks of the common
 * kernel process them. */
bool lls_cuda_attention_hopper_fits(const struct lls_cuda_pool *,
                                    const struct lls_cuda_grid *,
                                    const struct lls_cuda_attention *);
int lls_cuda_run_attention_hopper(cudaStream_t, const struct lls_cuda_step *,
                                  const struct lls_cuda_plan *,
                                  const struct lls_cuda_pool *,
                                  const struct lls_cuda_grid *,
                                  const struct lls_cuda_states *,
                                  const struct lls_cuda_attention *);
/* For all other shapes, without a plan. */
int lls_cuda_run_attention_plain(cudaStream_t, enum lls_dtype numbers,
                                 const struct lls_cuda_step *,
                                 const struct lls_cuda_pool *,
                                 const struct lls_cuda_attention *);

/* ---- sample.cu, sample_draw.cu ----------------------------------------------------- */

/* A change of a logit before the draw. */
struct lls_cuda_adjustment {
  int32_t token;
  uint32_t outputs; /* occurrences of the token in the output so far */
  float bias;       /* added if is_bias; otherwise the penalties are applied */
  uint32_t is_bias;
  float raw; /* written by the kernel: the unmodified logit */
};

/* banned tokens of a row; the mask excludes any further ones */
#define LLS_CUDA_MAX_BANNED 16

struct lls_cuda_draw {        /* one row */
  uint32_t drawn;             /* 0: greedy or scored; 1: drawn at random */
  uint32_t by_count, by_mass; /* 1: top_k, top_p exclude some tokens */
  float temperature, top_p, min_p;
  int32_t top_k;
  uint32_t n_banned;
  int32_t banned[LLS_CUDA_MAX_BANNED]; /* (n_banned) */
  float repetition_penalty, presence_penalty, frequency_penalty;
  uint32_t want_logprob, n_logprobs;
  uint64_t uniform; /* random number in [0, 1), in units of 2^-64 */
  uint32_t first_adjustment, n_penalised,
      /* adjustments begin with the penalised tokens, then the biased; a token is once
       * in each */
      n_biased;
  uint32_t
      scored; /* 1: nothing is drawn; `target` is looked up in the unmodified logits */
  uint32_t target;
  const uint32_t *allowed; /* NULL, or a bit for each allowed token, in device memory */
};

#define LLS_CUDA_SAMPLE_ROWS 128 /* rows drawn at once */

/* Draws one token for each row of logits, which may be overwritten. All pointers are
 * device memory. */
struct lls_cuda_sample {
  uint32_t n_rows, vocab;
  /* some row is not greedy; has top_k or top_p; has both */
  uint32_t drawn, filtered, twice;
  float *logits;                     /* (n_rows, vocab) */
  const struct lls_cuda_draw *draws; /* (n_rows) */
  struct lls_cuda_adjustment *adjustments;
  struct lls_sampled *out; /* (n_rows) */
  void *room;              /* lls_cuda_sample_room bytes, all 0 before the first use */
};

/* Returns the bytes of working memory for up to n_rows and vocab. */
size_t lls_cuda_sample_room(uint32_t n_rows, uint32_t vocab);
int lls_cuda_run_sample(cudaStream_t, const struct lls_cuda_sample *);
/* Draws for up to SAMPLE_ROWS rows whose largest logits are known. */
int lls_cuda_run_draw(cudaStream_t, const struct lls_cuda_sample *);

#ifdef __cplusplus
}
#endif

#endif
