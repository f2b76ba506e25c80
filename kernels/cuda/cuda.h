/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device's insides: what its host files share. Kernels are behind kernels.h.
 *
 * Two streams. `stream` computes; `copies` moves blocks between the device and the pinned
 * host pool, before a step or beside it. Events order the two; only step_end and download
 * wait, and never for the whole device.
 *
 * Operations are recorded (ops.h) and put on the stream together when somebody needs
 * their results, so that a decode step that was seen before is one launch of a graph.
 *
 * Errors. The first one since step_begin is kept and ends the step; a CUDA error means
 * that the context is lost, so every later step fails too. An error of a kernel shows at
 * whatever call comes after it: with LLS_CUDA_DEBUG=1 in the environment there are no
 * graphs and each operation is waited for, so that the message names the right one.
 * LLS_CUDA_ALGORITHMS=first takes cuBLASLt's word for the best way to multiply
 * (algorithms.c). LLS_CUDA_FEW=0 leaves a single row and bf16 weights to cuBLASLt, to
 * compare; 1 takes our kernel for it on other GPUs than Hopper's too.
 */
#ifndef LLS_CUDA_CUDA_H
#define LLS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/kernels.h"

/* Inputs of a step on their way to the device: filled in pinned memory, of which there
 * are two since the copy of one may be under way; see inputs.c. */
struct lls_cuda_inputs {
  char *host[2], *device;
  cudaEvent_t sent_event[2];
  size_t capacity, used, sent;
  unsigned turn;
};

struct lls_pool {
  struct lls_pool_shape shape;
  struct lls_cuda_pool view;
  size_t unit_bytes, head_bytes, slot_bytes;
  uint32_t attention_slots; /* blocks of decode attention that run at once */
  char *host;               /* (host_units, unit_bytes) pinned, NULL if there are none */
  uint16_t *host_scales;    /* as view.scales; NULL: the host has no int8 blocks */
  /* With them: blocks between their change of element and the link. */
  char *staged;            /* (STAGED, unit_bytes / 2) device */
  uint16_t *staged_scales; /* (STAGED, scales of a half) */

  /* With scratch_units: X on its way to K and V, in activations' numbers. */
  void *restored_x, *restored; /* (LLS_CUDA_RESTORE_ROWS, kv columns), twice as many */
  void *parts_of_x, *whole_x; /* (LLS_CUDA_RESTORE_ROWS, hidden) each, of all ranks; alone
                                 it is restored_x */
  float *angles;              /* (max_context, head_dim) by position */
  struct lls_rope_shape angles_of; /* all 0 = nothing yet */
};

#define LLS_CUDA_STAGED       8    /* int8 blocks, or 4 others: 4 MiB of Llama-3-8B's */
#define LLS_CUDA_RESTORE_ROWS 2048 /* tokens restored by one product */

/* Rows of one kind, numbers or codes; a list where a layer's are of several. */
struct lls_weight {
  size_t rows, columns, bytes;
  size_t outputs;              /* rows of these and of all that follow */
  void *data;                  /* (rows, columns) of activations' numbers, or codes */
  struct lls_cuda_codes codes; /* what is in data, if it is codes */
  float *scales;           /* (rows) of 8 bits with one scale each, where x has such codes
                              too for cuBLASLt; or NULL */
  void *bias;              /* (rows) of activations' numbers, NULL if none */
  float *bias_f32;         /* (rows) the same for logits, and beside codes */
  struct lls_weight *next; /* the rows that follow, NULL: none */
};

struct lls_cuda_table {
  size_t rows, columns;
  void *data; /* of activations' numbers */
};

/* How the step's attention was shared out; plan.c. */
struct lls_cuda_shared_out {
  struct lls_cuda_attention shape; /* that it is for; n_rows 0: no plan yet */
  struct lls_cuda_grid grid;
};

/* Room for products with few rows; see kernels.h. */
struct lls_cuda_few {
  bool numbers; /* weights in bf16, too */
  uint32_t blocks, *finished;
  float *parts;
  size_t shared_bytes;
};

struct lls_cuda_ops;
struct lls_cuda_products;

#define LLS_CUDA_PLANS 2 /* windows that layers of a step have in turns */
#define LLS_CUDA_ROPES 2 /* that layers of a step have in turns */

struct lls_cuda_device {
  struct lls_device base; /* first: what the vtable is called with */
  struct lls_device_options options;
  int gpu; /* CUDA's number of it; lls_cuda_use */
  struct cudaDeviceProp properties;
  cudaStream_t stream, copies, sends; /* the last is for draws' inputs */
  cudaStream_t packs;    /* of the thread that has to do with other processes; pack.c */
  cudaEvent_t step_done; /* of the step before: its blocks are written */
  cudaEvent_t reached;   /* waited for in the middle of a step */
  cudaEvent_t copies_before, copies_done, draws_sent;
  bool copies_given;
  uint64_t peers_asked, peers_reached; /* by number of the other GPU; pull.c */
  char *pull_staging; /* (LLS_CUDA_STAGING) pinned; NULL until a GPU has to do with it */

  /* Loading weights; download. */
  char *staging[2]; /* (STAGING) pinned */
  cudaEvent_t staging_sent[2];
  char *unconverted[2]; /* (STAGING) device: before their numbers are changed */
  unsigned staging_turn;

  struct lls_cuda_products *products; /* products.c */
  struct lls_cuda_ops *ops;           /* ops.c */
  struct lls_cuda_ranks *ranks;       /* ranks.c; NULL = alone */
  struct lls_cuda_links *links;       /* link.c; NULL = there are none */
  float *angles;  /* (ROPES, max_rows, rotary dims) of the step's rows */
  float *squares; /* (max_rows, 2) of norms that ranks share */
  void *widened;  /* (LLS_CUDA_WIDENED) of linear.c; NULL: no weight has codes */
  struct lls_cuda_states states;
  uint32_t hopper_blocks; /* that attention_hopper.cu's kernel gets; 0: it is not used */
  struct lls_cuda_few few;

  /* From step_begin to step_end. */
  struct lls_pool *pool;
  const struct lls_device_step *step;
  struct lls_cuda_inputs inputs;
  struct lls_block_entry *entries_at; /* (entries_room) device: the step's */
  size_t entries_room;
  struct lls_cuda_step *step_at;           /* device: beginning of inputs */
  struct lls_cuda_plan *plan_at;           /* device: (PLANS) after it */
  uint32_t *gather_rows[2], *gather_at[2]; /* (max_rows padded) of inputs, device */
  uint32_t n_gathers;
  uint32_t n_restored;                         /* tokens of the step */
  struct lls_rope_shape ropes[LLS_CUDA_ROPES]; /* that angles were made for; 0: not yet */
  float frequency[LLS_CUDA_ROPES][LLS_CUDA_ROTARY_MAX / 2]; /* that graphs have */
  struct lls_cuda_shared_out plans[LLS_CUDA_PLANS];
  size_t plan_begin[LLS_CUDA_PLANS]; /* of its lists in inputs */
  struct lls_cuda_inputs draws;
  void *sample_room;           /* of lls_cuda_run_sample */
  uint32_t *count;             /* (max_columns) of sample.c, zeros between rows */
  struct lls_sampled *results; /* (max_rows) pinned, written by the GPU */
  struct lls_sampled *out;     /* where step_end puts n_results of them */
  uint32_t n_results;
  int status;
  struct lls_error error;

  struct lls_error refusal; /* of the last call that returns a number only */
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

/* errors.c: keeps the first error of a step for step_end. */
void lls_cuda_step_fail(struct lls_cuda_device *, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with CUDA's own word for it, if rc is an error; true if it is not. */
bool lls_cuda_step_check(struct lls_cuda_device *, int rc, const char *what);
/* 0, or a negative errno with the sentence; for everything outside a step. */
int lls_cuda_check(int rc, struct lls_error *err, const char *what);
/* The same with the sentence kept for lls_cuda_refusal; 0 forgets the one before. */
int lls_cuda_refuse(struct lls_cuda_device *, int rc, const char *what);
const char *lls_cuda_refusal(const struct lls_device *);
/* With LLS_CUDA_DEBUG, waits for what was put on the stream last and says its name if it
 * failed; false if the step has. */
bool lls_cuda_debug_check(struct lls_cuda_device *, cudaStream_t, const char *what);

/* memory.c: makes the device's GPU the calling thread's, where it stays until another
 * device is used: for every entry that allocates, or that a thread may call which runs no
 * steps. 0 or -EIO. */
int lls_cuda_use(const struct lls_cuda_device *);
int lls_cuda_malloc(size_t bytes, void **out);
int lls_cuda_malloc_pinned(size_t bytes, void **out);
int lls_cuda_memory(struct lls_device *, size_t *total, size_t *available);
int lls_cuda_alloc(struct lls_device *, enum lls_memory, size_t bytes, void **out);
void lls_cuda_release(struct lls_device *, enum lls_memory, void *);

/* inputs.c */
int lls_cuda_inputs_create(struct lls_cuda_inputs *, size_t bytes);
void lls_cuda_inputs_destroy(struct lls_cuda_inputs *);
/* Starts anew, with room for so many bytes; nothing of it may be in use on the device. */
int lls_cuda_inputs_begin(struct lls_cuda_inputs *, size_t bytes);
/* Takes room, at a multiple of 16: here, and where it will be on the device. */
void *lls_cuda_inputs_take(struct lls_cuda_inputs *, size_t bytes, void *device_at);
/* Puts the copy of what was taken since the last call on a stream. */
int lls_cuda_inputs_send(struct lls_cuda_inputs *, cudaStream_t);

/* weight.c */
int lls_cuda_weight_create(struct lls_device *, const struct lls_tensor_view *parts,
                           const struct lls_tensor_view *biases, size_t n_parts,
                           enum lls_weight_format, struct lls_weight **out,
                           struct lls_error *err);
void lls_cuda_weight_destroy(struct lls_device *, struct lls_weight *);
size_t lls_cuda_weight_bytes(const struct lls_weight *);
/* weight_codes.c: rows of a weight as codes; w has its shape, and keeps what it got. */
int lls_cuda_codes_create(struct lls_cuda_device *, struct lls_weight *w,
                          enum lls_codes_form, const struct lls_tensor_view *parts,
                          size_t n_parts, struct lls_error *err);
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

/* link.c; there with nccl.h only. After all links are closed. */
extern const struct lls_link_ops lls_cuda_link_ops;
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
/* Row numbers of a gather on the device, padded with 0; NULL: the step has failed. */
const uint32_t *lls_cuda_step_rows(struct lls_cuda_device *, const uint32_t *rows,
                                   uint32_t n);

/* plan.c: shares out attention, unless the step has a plan for this shape; names it. */
void lls_cuda_plan_attention(struct lls_cuda_device *, struct lls_cuda_attention *);
/* plan_pieces.c: makes pieces and lanes of the step's decodes; how many states they
 * leave. */
uint32_t lls_cuda_plan_pieces(struct lls_cuda_device *, const struct lls_cuda_attention *,
                              struct lls_cuda_plan *);
/* plan_size.c: the tiles that some rows of a sequence see. */
struct lls_cuda_span {
  uint32_t first_tile, n_tiles, end;
};
struct lls_cuda_span lls_cuda_span_of(const struct lls_cuda_attention *,
                                      const struct lls_step_sequence *, uint32_t first,
                                      uint32_t n_rows);
/* Is a sequence a decode for attention, cut in pieces? Else its rows are large items. */
bool lls_cuda_in_pieces(const struct lls_cuda_attention *,
                        const struct lls_step_sequence *);
uint32_t lls_cuda_plan_lanes(const struct lls_cuda_device *,
                             uint32_t kv_heads); /* most */
/* Large items beyond one for each row that are worth making. */
uint32_t lls_cuda_plan_spare(const struct lls_cuda_device *, uint32_t kv_heads);
/* The plan's grid, or one that fits every step of as many rows that are all decodes. */
struct lls_cuda_grid lls_cuda_plan_grid(const struct lls_cuda_device *,
                                        const struct lls_cuda_attention *, bool any_step);
size_t lls_cuda_plan_bytes(const struct lls_cuda_device *, uint32_t n_rows); /* at most */

/* A linear layer, as the record of it has it. */
struct lls_cuda_linear {
  const struct lls_weight *weight;
  uint32_t first, outputs; /* the weight's rows that are taken */
  const void *x;
  void *y;
  uint32_t n_rows;
  uint32_t add;  /* y += */
  uint32_t relu; /* of the result */
  uint32_t f32;  /* y is f32, whatever activations are */
};
/* linear.c: part of a linear layer, or all of it. */
void lls_cuda_run_linear(struct lls_cuda_device *, const struct lls_cuda_linear *);
/* Its products that cuBLASLt does with the weights as they lie. */
struct lls_cuda_product;
void lls_cuda_each_product(struct lls_cuda_device *, const struct lls_cuda_linear *,
                           void (*)(struct lls_cuda_device *,
                                    const struct lls_cuda_product *, void *),
                           void *);

/* products.c: y (n_rows, stride) = x (n_rows, inputs) w^T, w (outputs, inputs), in
 * activations' numbers; or in e4m3, with scales of each output and row, or without, when
 * y is f32; or in int8, y being int32_t. Without scales also without bias, add and relu.
 */
struct lls_cuda_product {
  const void *w, *bias, *x;         /* bias of y's numbers, or NULL */
  const float *w_scales, *x_scales; /* (outputs), (n_rows) of e4m3; or both NULL */
  void *y;
  uint32_t outputs, inputs, n_rows, stride;
  uint32_t add, relu, f32; /* as above */
  uint32_t e4m3, int8;
};
int lls_cuda_products_create(struct lls_cuda_products **, struct lls_error *err);
void lls_cuda_products_destroy(struct lls_cuda_products *);
/* False: cuBLASLt has no way to do that in e4m3 or int8, nothing was done. */
bool lls_cuda_run_product(struct lls_cuda_device *, const struct lls_cuda_product *);

/* algorithms.c: gets ready for the operations that were written down. */
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

/* sample.c */
void lls_cuda_sample(struct lls_device *, float *logits, uint32_t n_rows, uint32_t vocab,
                     const struct lls_sampling *const *params, struct lls_sampled *out);
/* Hands out what was drawn, after the stream was waited for. */
void lls_cuda_sample_finish(struct lls_cuda_device *);

#endif
