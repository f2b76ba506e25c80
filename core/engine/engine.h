/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: a model's weights, its cache pool and the forward pass, over one device.
 * It decides nothing; a step computes exactly what the batch says.
 *
 * Life, all on the instance's thread unless said otherwise:
 *
 *   lls_model_config_read      config.json
 *   lls_engine_max_columns     for the device's options, then the device is created
 *   lls_engine_create          loads weights, makes the pool  [any one thread]
 *   { lls_engine_submit; lls_engine_wait }...
 *   lls_engine_destroy         before the device
 *
 * Nothing from submit to wait allocates: every buffer is sized at create by max_tokens
 * and max_sequences; but on an asynchronous device tables grow for a while
 * (table_cache.c).
 *
 * With tensor parallel ranks each has an engine of its own over its shard of the model
 * (core/engine/worker_rank.h). What is submitted to rank 0's is computed by all; the
 * others' take steps from there. Tokens and logits are on rank 0 alone.
 */
#ifndef LLS_ENGINE_ENGINE_H
#define LLS_ENGINE_ENGINE_H

#include "core/engine/batch.h"
#include "core/config/limits.h"
#include "core/device/device.h"
#include "core/model/model_config.h"

struct lls_engine;

struct lls_engine_options {
  const char *model_path; /* folder with config.json and *.safetensors, or .gguf */
  bool dummy;             /* random weights of the configured shape, no file is read */
  enum lls_weight_format weights;
  enum lls_dtype cache_element; /* LLS_F32 or LLS_BF16 */
  uint32_t max_tokens;          /* rows of the largest step, = the device's max_rows */
  uint32_t max_sequences;       /* of a step, = the device's */
  uint32_t max_context;         /* tokens of a sequence; 0 = the model's own limit */
  uint32_t max_logits;          /* rows kept by all_logits in a step, 0 = none */
  uint32_t block_tokens;
  size_t cache_bytes; /* device pool; 0 = what max_sequences sequences hold, at most half
                         of the memory left after weights and buffers */
  bool gives_back;    /* so does the cache manager: caps' window is all that they hold */
  double cache_share; /* with cache_bytes 0: that share of it instead, 0 = as said */
  struct lls_pool_limits pool;
  uint32_t instances; /* that share the host's memory with it, itself too; 0 = it alone */
  bool no_hidden;     /* no policy will use the hidden form: no memory for its scratch */
  bool kv_only; /* the cache manager has no use for it: the same where that takes memory
                   before it is used, as on a GPU */

  /* Its weights are used where they lie in the same memory (lls_device.is_host): it is of
   * the same model and options, and outlives this one; NULL = they are loaded. */
  const struct lls_engine *weights_of;

  struct lls_ranks
      *ranks; /* this engine's end of its group, as its device's; NULL = alone */

  /* Tells how far loading is; NULL = no listener. */
  bool (*progress)(void *context, size_t done_bytes, size_t total_bytes);
  void *progress_context;
  int64_t (*clock)(void *context); /* nanoseconds; NULL = CLOCK_MONOTONIC */
  void *clock_context;
};

/* The widest row of any operation of this model: lls_device_options.max_columns. */
uint32_t lls_engine_max_columns(const struct lls_model_config *);

/* -ENOENT, -EINVAL (a broken or foreign folder), -ENOMEM (with the numbers), ... */
int lls_engine_create(const struct lls_engine_options *, const struct lls_model_config *,
                      struct lls_device *, struct lls_engine **out,
                      struct lls_error *err);
void lls_engine_destroy(struct lls_engine *);

/* Why this engine has no hidden form; NULL if it has. */
const char *lls_engine_why_no_hidden(const struct lls_engine *);
/* The same, as far as the model decides it. */
const char *lls_model_why_no_hidden(const struct lls_model_config *);
/* True if hidden form is off only because no policy used it when this engine was created.
 */
bool lls_engine_gave_up_hidden(const struct lls_engine *);
const struct lls_engine_caps *lls_engine_caps(const struct lls_engine *);
const struct lls_pool_shape *lls_engine_pool_shape(const struct lls_engine *);
const char *lls_engine_device_name(const struct lls_engine *); /* "cpu", "cuda", "sim" */
/* Why the pool is as large as it is. */
const char *lls_engine_pool_reason(const struct lls_engine *);
/* Why its host tier is. */
const char *lls_engine_host_reason(const struct lls_engine *);
const struct lls_model_config *lls_engine_config(const struct lls_engine *);
/* From submit to wait the device computes beside the caller. */
bool lls_engine_is_asynchronous(const struct lls_engine *);
size_t lls_engine_weight_bytes(const struct lls_engine *);
/* The step's largest buffers, which are the ones that have to be counted. */
size_t lls_engine_buffer_bytes(const struct lls_engine *);
/* Numbers of an output vector: hidden, or what the model projects that to, or its head
 * makes of it where it is a cross-encoder. */
uint32_t lls_engine_vector_columns(const struct lls_engine *);

/* A unit block of the pool, lls_unit_bytes of it, to and from memory; between steps.
 * -ENOTSUP: not on this device, nor where ranks have a part each. */
int lls_engine_read_unit(struct lls_engine *, uint32_t unit, void *to);
int lls_engine_write_unit(struct lls_engine *, uint32_t unit, const void *from);
bool lls_engine_reads_units(const struct lls_engine *);

/* [any one thread] Slots of unit blocks to and from memory of lls_engine_pack_memory,
 * beside the steps: pool_pack and pool_unpack in device.h; of this rank's part of them.
 */
bool lls_engine_packs(const struct lls_engine *);
int lls_engine_pack(struct lls_engine *, const struct lls_pull *, uint32_t n, void *to);
int lls_engine_unpack(struct lls_engine *, const struct lls_pull *, uint32_t n,
                      const void *from);
/* [any one thread] Memory to pack in: LLS_MEMORY_PINNED; or PIECES, where the device has
 * them, to which there is no other way than these. NULL: there is none left. */
bool lls_engine_has_pieces(const struct lls_engine *);
void *lls_engine_pack_memory(struct lls_engine *, enum lls_memory, size_t bytes);
void lls_engine_release_pack_memory(struct lls_engine *, enum lls_memory, void *);
int lls_engine_write_piece(struct lls_engine *, void *piece, const void *from,
                           size_t bytes);
int lls_engine_read_piece(struct lls_engine *, const void *piece, void *to, size_t bytes);
/* Links to other processes' devices begin here: device/link.h. */
struct lls_device *lls_engine_device(const struct lls_engine *);

/* This engine's end of its group; NULL: it is alone. */
struct lls_ranks *lls_engine_ranks(const struct lls_engine *);

/* Why unit blocks of `from` cannot be copied to this one's pool; NULL: they can. */
const char *lls_engine_why_no_pull(const struct lls_engine *,
                                   const struct lls_engine *from);

/*
 * Starts one step; on a device that computes in the caller's thread it returns when the
 * step is done. 0, -EINVAL (more rows, sequences or context than the limits, a bad table
 * or copy: nothing was started), -ENOTSUP (a form, direction or element of
 * caps, "unsupported by this engine").
 */
int lls_engine_submit(struct lls_engine *, const struct lls_engine_batch *,
                      struct lls_error *err);

/* Ends the step begun by the last submit. An error here is the device's: fatal. */
int lls_engine_wait(struct lls_engine *, struct lls_engine_result *,
                    struct lls_error *err);

/* [rank 0] Dismisses the other ranks, unless the group has failed. No step after. */
void lls_engine_dismiss(struct lls_engine *);
/* [rank 0] Says something to the other ranks between two steps, to hear before the next.
 */
int lls_engine_tell(struct lls_engine *, const void *note, size_t bytes);

struct lls_engine_note {
  const void *data;
  size_t bytes;
};

enum { LLS_RECEIVED_END, LLS_RECEIVED_STEP, LLS_RECEIVED_NOTE };

/* [other ranks] One of these, or an error: a batch or a note, valid until the next call;
 * or this rank is dismissed. */
int lls_engine_receive(struct lls_engine *, struct lls_engine_batch *,
                       struct lls_engine_note *, struct lls_error *err);

/* Logits (n_tokens, vocab) of a sequence submitted with all_logits, NULL if it was not;
 * valid until the next submit. */
const float *lls_engine_logits(const struct lls_engine *, uint32_t sequence);

#endif
