/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device's insides: what its host files share. Kernels are behind kernels.h.
 *
 * Two streams. `stream` computes; `copies` moves blocks between the device and the
 * pinned host pool, before or during a step. Events order the two; only step_end and
 * download wait, and never for the whole device.
 *
 * Operations are recorded (ops.h) and put on the stream together when their results are
 * needed, so that a decode step seen before is one launch of a graph.
 *
 * Errors. The first error since step_begin is kept and ends the step. A CUDA error
 * means that the context is lost, so every later step fails too. CUDA reports an error
 * of a kernel at some later call; with LLS_CUDA_DEBUG=1 in the environment there are no
 * graphs and each operation is waited for, so that the message names the right
 * one.\n\nLLS_CUDA_ALGORITHMS=first uses the first algorithm of cuBLASLt's heuristic,
 * untimed (algorithms.c). LLS_CUDA_FEW=0 multiplies a single row with bf16 weights by
 * cuBLASLt, for comparison; 1 uses our kernel for that on all GPUs, not only on Hopper.
 */
#ifndef LLS_CUDA_CUDA_H
#define LLS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/adapt.h"
#include "kernels/cuda/extras.h"

/* Inputs of a step on their way to the device. They are filled in pinned memory, of
 * which there are two buffers since the copy of one may be under way; see inputs.c. */
struct lls_cuda_inputs {
  char *host[2], *device;
  cudaEvent_t sent_event[2];
  size_t capacity, used, sent;
  unsigned turn;
};

struct lls_pool {
  struct lls_pool_shape shape, groups[LLS_MAX_GROUPS]; /* as a group's blocks are in it */
  struct lls_cuda_pool view, views[LLS_MAX_GROUPS];    /* the same for kernels */
  size_t unit_bytes;
  /* of each group: bytes of a head of a block, and of a slot of it; blocks of decode
   * attention that run at once */
  size_t head_bytes[LLS_MAX_GROUPS], slot_bytes[LLS_MAX_GROUPS];
  uint32_t attention_slots[LLS_MAX_GROUPS];
  /* (host_units, unit_bytes) pinned, NULL without a host tier */
  char *host;
  /* Only with int8 host blocks: blocks between their conversion and the transfer, at
   * multiples of lls_cuda_staged_bytes in device memory. */
  char *staged;

  /* Only with scratch_blocks: X and the K and V restored from it, in the activations'
   * type. */
  /* (LLS_CUDA_RESTORE_ROWS, kv columns); restored has twice as many columns */
  void *restored_x, *restored;
  /* (LLS_CUDA_RESTORE_ROWS, hidden) each: X of each rank's columns, and X of all ranks
   * together; without other ranks whole_x is restored_x */
  void *parts_of_x, *whole_x;
  float *angles;                   /* (max_context, head_dim) by position */
  struct lls_rope_shape angles_of; /* the rope of the angles; all 0: not computed yet */
};

#define LLS_CUDA_STAGED       4    /* blocks: 8 MiB for Llama-3-8B */
#define LLS_CUDA_RESTORE_ROWS 2048 /* tokens restored by one product */

/* Bytes of a staged block of either form, of any group that keeps K and V. */
static inline size_t lls_cuda_staged_bytes(const struct lls_pool_shape *s)
{
  size_t most = 0;
  for (uint32_t i = 0; i < lls_pool_groups(s); i++) {
    const struct lls_pool_shape one = lls_group_shape(s, i);
    if (one.state > 0)
      continue; /* a state has one form */
    size_t wide = lls_form_bytes(&one, LLS_FORM_KV);
    size_t int8 = lls_form_bytes(&one, LLS_FORM_INT8);
    most = wide > most ? wide : most;
    most = int8 > most ? int8 : most;
  }
  return (most + 15) & ~(size_t)15;
}

/* Rows of one format, plain or codes; a list if the rows of a layer have several
 * formats. */
struct lls_weight {
  size_t rows, columns, bytes;
  size_t outputs;              /* rows of this entry and of all that follow */
  void *data;                  /* (rows, columns) in the activations' type, or codes */
  struct lls_cuda_codes codes; /* describes data, if it holds codes */
  /* (rows) one scale for each row of 8-bit codes, for products where cuBLASLt also gets
   * x in 8 bits; or NULL */
  float *scales;
  void *bias;              /* (rows) in the activations' type, NULL if none */
  float *bias_f32;         /* (rows) bias in f32 for logits and for products with codes */
  struct lls_weight *next; /* the rows that follow, NULL: none */
};

struct lls_cuda_table {
  size_t rows, columns;
  void *data; /* values in the activations' type */
};

/* How the step's attention is divided among blocks; plan.c. */
struct lls_cuda_shared_out {
  /* the shape that the plan is for; n_rows 0: no plan yet */
  struct lls_cuda_attention shape;
  struct lls_cuda_grid grid;
};

/* Working memory for products with few rows; see kernels.h. */
struct lls_cuda_few {
  bool numbers; /* used for bf16 weights, too */
  uint32_t blocks, *finished;
  float *parts;
  size_t shared_bytes;
};

/* The adapters of a step, in a buffer of their own; adapt.c. */
#define LLS_CUDA_ADAPTED_LISTS 2 /* all rows; those that need logits */
struct lls_cuda_adapted_list {
  const uint32_t *of; /* the first group's rows, which the caller has in host memory */
  uint32_t n;
  const uint32_t *rows_at, *adapter_of_at; /* device */
};
struct lls_cuda_adapted {
  struct lls_cuda_inputs inputs;
  bool begun; /* this step has some */
  struct lls_cuda_adapted_list lists[LLS_CUDA_ADAPTED_LISTS];
  uint32_t n_lists;
};

struct lls_cuda_ops;
struct lls_cuda_products;

/* plans cached, since layers of a model may alternate between two windows */
#define LLS_CUDA_PLANS 2
/* ropes cached, since layers of a model may alternate between two */
#define LLS_CUDA_ROPES 2

struct lls_cuda_device {
  struct lls_device base; /* first: the device pointer that the vtable's functions get */
  struct lls_device_options options;
  int gpu; /* CUDA's number of the GPU; lls_cuda_use */
  struct cudaDeviceProp properties;
  cudaStream_t stream, copies, sends; /* `sends`: for the inputs of draws */
  /* stream of the thread that exchanges blocks with other processes; pack.c */
  cudaStream_t packs;
  cudaEvent_t step_done; /* end of the previous step: its blocks are written */
  cudaEvent_t reached;   /* event for waits within a step */
  cudaEvent_t copies_before, copies_done, draws_sent;
  bool copies_given;
  uint64_t peers_asked, peers_reached; /* bit sets by the other GPU's number; pull.c */
  /* (LLS_CUDA_STAGING) pinned; NULL until a GPU without direct access needs it */
  char *pull_staging;

  /* For loading weights, and for `download`. */
  char *staging[2]; /* (STAGING) pinned */
  cudaEvent_t staging_sent[2];
  char *unconverted[2]; /* (STAGING) device memory: values before their conversion */
  unsigned staging_turn;

  struct lls_cuda_products *products; /* products.c */
  struct lls_cuda_ops *ops;           /* ops.c */
  struct lls_cuda_ranks *ranks;       /* ranks.c; NULL: a single rank */
  struct lls_cuda_links *links;       /* link.c; NULL: no links */
  float *angles;  /* (ROPES, max_rows, rotary dims) angles of the step's rows */
  float *squares; /* (max_rows, 2) sums for norms and gates that ranks share */
  void *widened;  /* (LLS_CUDA_WIDENED) used by linear.c; NULL: no weight has codes */
  struct lls_cuda_states states;
  /* blocks of the kernel in attention_hopper.cu; 0: it is not used */
  uint32_t hopper_blocks;
  struct lls_cuda_few few;

  /* Valid from step_begin to step_end. */
  struct lls_pool *pool;
  const struct lls_device_step *step;
  struct lls_cuda_inputs inputs;
  /* (entries_room) device memory: block table entries of the step */
  struct lls_block_entry *entries_at;
  size_t entries_room;
  struct lls_cuda_step *step_at; /* device: (groups) the beginning of inputs */
  struct lls_cuda_plan *plan_at; /* device: (PLANS), after step_at */
  /* (max_rows padded) row numbers in inputs, on the host and on the device */
  uint32_t *gather_rows[2], *gather_at[2];
  uint32_t n_gathers;
  uint32_t n_restored; /* tokens that the step restores */
  uint32_t n_chains;   /* sequences whose states the step rewrites */
  /* numbers of a latent before those that the step has rotated; 0: none rotated yet */
  uint32_t latent_rank;
  /* ropes of the computed angles; 0: none yet */
  struct lls_rope_shape ropes[LLS_CUDA_ROPES];
  /* frequencies that graphs contain */
  float frequency[LLS_CUDA_ROPES][LLS_CUDA_ROTARY_MAX / 2];
  struct lls_cuda_shared_out plans[LLS_CUDA_PLANS];
  size_t plan_begin[LLS_CUDA_PLANS]; /* offset of the plan's lists in inputs */
  struct lls_cuda_adapted adapted;
  struct lls_cuda_inputs draws;
  void *sample_room;           /* working memory of lls_cuda_run_sample */
  uint32_t *count;             /* (max_columns) used by sample.c; all 0 between rows */
  struct lls_sampled *results; /* (max_rows) pinned, written by the GPU */
  struct lls_sampled *out;     /* destination of n_results of them in step_end */
  uint32_t n_results;
  int status;
  struct lls_error error;

  struct lls_error refusal; /* error of the last call that only returns a number */
  bool debug;               /* LLS_CUDA_DEBUG=1 */
};

#define LLS_CUDA_STAGING ((size_t)8 << 20)
#define LLS_CUDA_WIDENED ((size_t)32 << 20)

static inline struct lls_cuda_device *lls_cuda(struct lls_device *device)
{
  return (struct lls_cuda_device *)device;
}

static inline enum lls_dtype lls_cuda_numbers(const struct lls_cuda_device *d)
{
  return d->base.activation_type;
}

/* errors.c: records an error for step_end; only the step's first one is kept. */
void lls_cuda_step_fail(struct lls_cuda_device *, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like lls_cuda_step_fail, with CUDA's message if rc is an error. Returns true if it is
 * not. */
bool lls_cuda_step_check(struct lls_cuda_device *, int rc, const char *what);
/* Returns 0, or a negative errno with the message in err; for everything outside a
 * step. */
int lls_cuda_check(int rc, struct lls_error *err, const char *what);
/* Like lls_cuda_check, with the message kept for lls_cuda_refusal; rc 0 clears the last
 * message. */
int lls_cuda_refuse(struct lls_cuda_device *, int rc, const char *what);
const char *lls_cuda_refusal(const struct lls_device *);
/* With LLS_CUDA_DEBUG, waits for the last operation on the stream and reports `what` if
 * it failed. Returns false if the step has failed. */
bool lls_cuda_debug_check(struct lls_cuda_device *, cudaStream_t, const char *what);

/* memory.c: selects the device's GPU for the calling thread, until the thread selects
 * another. Every function that allocates calls it, and every function that threads
 * other than the step's may call. Returns 0 or -EIO. */
int lls_cuda_use(const struct lls_cuda_device *);
int lls_cuda_malloc(size_t bytes, void **out);
int lls_cuda_malloc_pinned(size_t bytes, void **out);
int lls_cuda_memory(struct lls_device *, size_t *total, size_t *available);
int lls_cuda_alloc(struct lls_device *, enum lls_memory, size_t bytes, void **out);
void lls_cuda_release(struct lls_device *, enum lls_memory, void *);

/* inputs.c */
int lls_cuda_inputs_create(struct lls_cuda_inputs *, size_t bytes);
void lls_cuda_inputs_destroy(struct lls_cuda_inputs *);
/* Starts an empty buffer of `bytes`; the device must not be using the inputs. */
int lls_cuda_inputs_begin(struct lls_cuda_inputs *, size_t bytes);
/* Reserves space at a multiple of 16; returns its host address and sets its address on
 * the device. */
void *lls_cuda_inputs_take(struct lls_cuda_inputs *, size_t bytes, void *device_at);
/* Copies what was reserved since the last call to the device, on a stream. */
int lls_cuda_inputs_send(struct lls_cuda_inputs *, cudaStream_t);

/* weight.c */
int lls_cuda_weight_create(struct lls_device *, const struct lls_tensor_view *parts,
                           const struct lls_tensor_view *biases, size_t n_parts,
                           enum lls_weight_format, struct lls_weight **out,
                           struct lls_error *err);
void lls_cuda_weight_destroy(struct lls_device *, struct lls_weight *);
size_t lls_cuda_weight_bytes(const struct lls_weight *);
/* weight_codes.c: stores rows of a weight as codes; w has its shape, and owns what was
 * allocated even on failure. */
int lls_cuda_codes_create(struct lls_cuda_device *, struct lls_weight *w,
                          enum lls_codes_form, const struct lls_tensor_view *parts,
                          size_t n_parts, struct lls_error *err);
/* Converts the n parts' numbers to the activations' type and writes them to device
 * memory. */
int lls_cuda_load_numbers(struct lls_cuda_device *,
                          const struct lls_adapter_numbers *parts, size_t n);
int lls_cuda_vector_create(struct lls_device *, const struct lls_tensor_view *,
                           float **out, struct lls_error *err);
int lls_cuda_table_create(struct lls_device *, const struct lls_tensor_view *, void **out,
                          struct lls_error *err);
void lls_cuda_table_destroy(struct lls_device *, void *table);

/* pool.c, copies.c */
int lls_cuda_pool_create(struct lls_device *, const struct lls_pool_shape *,
                         struct lls_pool **out, struct lls_error *err);
void lls_cuda_pool_destroy(struct lls_device *, struct lls_pool *);
int lls_cuda_pool_copy(struct lls_device *, struct lls_pool *, const struct lls_copy *,
                       size_t n);

/* pull.c */
int lls_cuda_pool_pull(struct lls_device *, struct lls_pool *, struct lls_device *from,
                       const struct lls_pool *from_pool, const struct lls_pull *,
                       size_t n);

/* pack.c */
int lls_cuda_pool_pack(struct lls_device *, const struct lls_pool *,
                       const struct lls_pull *, size_t n, void *to);
int lls_cuda_pool_unpack(struct lls_device *, struct lls_pool *, const struct lls_pull *,
                         size_t n, const void *from);
int lls_cuda_piece_write(struct lls_device *, void *piece, const void *from,
                         size_t bytes);
int lls_cuda_piece_read(struct lls_device *, const void *piece, void *to, size_t bytes);

/* link.c; exists only in builds with nccl.h. */
extern const struct lls_link_ops lls_cuda_link_ops;
/* Called after all links are closed. */
void lls_cuda_links_destroy(struct lls_cuda_links *);

/* restore.c */
void lls_cuda_hidden_write(struct lls_device *, const struct lls_attention_shape *,
                           uint32_t layer, const void *h);
void lls_cuda_restore(struct lls_device *, const struct lls_attention_shape *,
                      const struct lls_rope_shape *, uint32_t layer,
                      const struct lls_weight *qkv);
struct lls_cuda_op;
/* run_restore.c */
void lls_cuda_run_restore(struct lls_cuda_device *, const struct lls_cuda_op *);

/* step.c */
int lls_cuda_step_begin(struct lls_device *, struct lls_pool *,
                        const struct lls_device_step *);
int lls_cuda_step_end(struct lls_device *, struct lls_error *err);
void lls_cuda_download(struct lls_device *, const void *from, void *to, size_t bytes);
/* Row numbers of a gather, on the device, padded with 0; NULL if the step has
 * failed. */
const uint32_t *lls_cuda_step_rows(struct lls_cuda_device *, const uint32_t *rows,
                                   uint32_t n);

/* plan.c: divides attention among blocks, unless the step already has a plan for this
 * shape; sets a->plan. */
void lls_cuda_plan_attention(struct lls_cuda_device *, struct lls_cuda_attention *);
/* plan_pieces.c: cuts the step's decodes into pieces and lanes; returns the number of
 * states that they write. */
uint32_t lls_cuda_plan_pieces(struct lls_cuda_device *, const struct lls_cuda_attention *,
                              struct lls_cuda_plan *);
/* plan_size.c: the tiles that some rows of a sequence see. */
struct lls_cuda_span {
  uint32_t first_tile, n_tiles, end;
};
struct lls_cuda_span lls_cuda_span_of(const struct lls_cuda_attention *,
                                      const struct lls_step_sequence *, uint32_t first,
                                      uint32_t n_rows);
/* Is a sequence a decode, whose attention is cut into pieces? Otherwise its rows are
 * large items. */
bool lls_cuda_in_pieces(const struct lls_cuda_attention *,
                        const struct lls_step_sequence *);
uint32_t lls_cuda_plan_lanes(const struct lls_cuda_device *, uint32_t group); /* most */
/* Returns the number of extra large items worth making, beyond one for each row. */
uint32_t lls_cuda_plan_spare(const struct lls_cuda_device *, uint32_t kv_heads);
/* Returns the plan's grid, or one that fits every step of the same number of rows that
 * are all decodes, or with `several` guesses of decodes. */
struct lls_cuda_grid lls_cuda_plan_grid(const struct lls_cuda_device *,
                                        const struct lls_cuda_attention *, bool any_step);
/* upper bound */
size_t lls_cuda_plan_bytes(const struct lls_cuda_device *, uint32_t n_rows);

/* A linear layer, as it is recorded. */
struct lls_cuda_linear {
  const struct lls_weight *weight;
  uint32_t first, outputs; /* the range of the weight's rows to compute */
  const void *x;
  void *y;
  uint32_t n_rows;
  uint32_t add;  /* add the result to y */
  uint32_t relu; /* apply ReLU to the result */
  uint32_t f32;  /* y is f32, even if activations are bf16 */
};
/* linear.c: computes a linear layer, or part of it. */
void lls_cuda_run_linear(struct lls_cuda_device *, const struct lls_cuda_linear *);
/* A product that cuBLASLt computes with weights in their stored type. */
struct lls_cuda_product;
void lls_cuda_each_product(struct lls_cuda_device *, const struct lls_cuda_linear *,
                           void (*)(struct lls_cuda_device *,
                                    const struct lls_cuda_product *, void *),
                           void *);

/* products.c: y (n_rows, stride) = x (n_rows, inputs) w^T, with w (outputs, inputs), in
 * the activations' type; or in e4m3, with scales of each output and row, or without
 * scales if y is f32; or in int8, with y of int32_t. Products without scales also have
 * no bias, add or relu. */
struct lls_cuda_product {
  const void *w, *bias, *x;         /* bias in y's type, or NULL */
  const float *w_scales, *x_scales; /* (outputs), (n_rows) for e4m3; or both NULL */
  void *y;
  uint32_t outputs, inputs, n_rows, stride;
  uint32_t add, relu, f32; /* flags of lls_cuda_linear */
  uint32_t e4m3, int8;
};
int lls_cuda_products_create(struct lls_cuda_products **, struct lls_error *err);
void lls_cuda_products_destroy(struct lls_cuda_products *);
/* Returns false if cuBLASLt has no algorithm for the product in e4m3 or int8; then
 * nothing was done. */
bool lls_cuda_run_product(struct lls_cuda_device *, const struct lls_cuda_product *);

/* algorithms.c: times algorithms for the products among the recorded operations. */
void lls_cuda_prepare(struct lls_cuda_device *);
bool lls_cuda_chosen(struct lls_device *, uint32_t i, char *text, size_t size);

/* mixture.c */
int lls_cuda_experts_create(struct lls_device *, struct lls_weight *const *weights,
                            uint32_t n, struct lls_experts **out, struct lls_error *err);
void lls_cuda_experts_destroy(struct lls_device *, struct lls_experts *);
void lls_cuda_route_rows(struct lls_device *, const float *scores, uint32_t n_rows,
                         bool normalise, const struct lls_route *);
void lls_cuda_gather_routed(struct lls_device *, const struct lls_route *, const void *x,
                            uint32_t n_rows, uint32_t columns, void *y);
void lls_cuda_linear_experts_op(struct lls_device *, const struct lls_experts *,
                                const struct lls_route *, const void *x, uint32_t n_rows,
                                void *y);
void lls_cuda_gated_experts(struct lls_device *, const struct lls_route *,
                            enum lls_activation, const void *x, uint32_t n_rows,
                            uint32_t columns, void *y);
void lls_cuda_combine_rows(struct lls_device *, const struct lls_route *, const void *x,
                           uint32_t n_rows, uint32_t columns, enum lls_linear_store,
                           void *y);

/* Rows of all heads' numbers. */
struct lls_cuda_heads {
  void *at;
  uint32_t stride, head; /* elements from row to row, from head to head */
};
/* Multiplies each head's numbers of x by its own matrix, in one launch. */
void lls_cuda_multiply_heads(struct lls_cuda_device *, const struct lls_experts *,
                             uint32_t n_rows, const struct lls_cuda_heads *x,
                             const struct lls_cuda_heads *y);

/* latent.c */
void lls_cuda_latent_rows(struct lls_device *, const struct lls_latent_shape *,
                          const struct lls_experts *keys, const void *q, const void *kv,
                          void *rows);
void lls_cuda_latent_values(struct lls_device *, const struct lls_latent_shape *,
                            const struct lls_experts *values, const void *x, void *y);

/* extras.c */
void lls_cuda_xielu(struct lls_device *, const struct lls_xielu *, void *x,
                    uint32_t n_rows, uint32_t columns);
void lls_cuda_grow_queries(struct lls_device *, const struct lls_attention_shape *,
                           const struct lls_query_growth *, void *qkv);
void lls_cuda_gate_rows(struct lls_device *, const float *scores, void *x,
                        uint32_t n_rows, uint32_t columns);
void lls_cuda_scale(struct lls_device *, float factor, uint32_t n_rows, uint32_t columns,
                    void *x);
void lls_cuda_gate_inputs(struct lls_device *, enum lls_activation, const void *y,
                          uint32_t n_rows, uint32_t columns, void *x);
void lls_cuda_embed_layer(struct lls_device *, const void *table, float scale, void *x);
void lls_cuda_predict(struct lls_device *, const struct lls_streams *,
                      const float *scores, const float *mix, uint32_t n_rows,
                      uint32_t columns, void *x);
void lls_cuda_correct(struct lls_device *, const struct lls_streams *,
                      const float *scores, const float *mix, const float *scale,
                      const void *x, uint32_t n_rows, uint32_t columns, void *y);
void lls_cuda_match_size(struct lls_device *, const void *like, uint32_t n_rows,
                         uint32_t columns, void *x);
void lls_cuda_cut_gates(struct lls_device *, float factor, uint32_t whole,
                        uint32_t n_rows, uint32_t columns, void *x);

/* sample.c */
void lls_cuda_sample(struct lls_device *, float *logits, uint32_t n_rows, uint32_t vocab,
                     const struct lls_sampling *const *params, struct lls_sampled *out);
/* Hands out the drawn tokens, after the stream was waited for. */
void lls_cuda_sample_finish(struct lls_cuda_device *);

#endif
