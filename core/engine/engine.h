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
 * Nothing allocates between submit and wait, since create sizes every buffer by
 * max_tokens and max_sequences. The exception is the table cache of an asynchronous
 * device, which grows during the first steps (table_cache.c).
 *
 * Each tensor parallel rank has an engine of its own over its shard of the model
 * (core/engine/worker_rank.h). The caller submits steps to rank 0's engine, which sends
 * them to the other ranks; all ranks compute each step. Only rank 0 has the tokens and
 * logits.
 */
#ifndef LLS_ENGINE_ENGINE_H
#define LLS_ENGINE_ENGINE_H

#include "core/engine/batch.h"
#include "core/config/limits.h"
#include "core/device/device.h"
#include "core/model/model_config.h"

struct lls_engine;
struct lls_text; /* core/base/text.h */

struct lls_engine_options {
  const char *model_path; /* folder with config.json and *.safetensors, or .gguf */
  bool dummy;             /* random weights of the configured shape, no file is read */
  enum lls_weight_format weights;
  enum lls_dtype cache_element; /* LLS_F32 or LLS_BF16 */
  /* rows of the largest step; equal to max_rows of the device */
  uint32_t max_tokens;
  /* most sequences in a step; equal to the device's limit */
  uint32_t max_sequences;
  uint32_t max_context; /* tokens of a sequence; 0 = the model's own limit */
  uint32_t max_logits;  /* rows kept by all_logits in a step, 0 = none */
  /* guesses that a step verifies for one sequence; 0 = none. caps.max_drafts is 0 where
   * the engine cannot (lls_engine_why_no_drafts). */
  uint32_t max_drafts;
  uint32_t block_tokens;
  /* size of the device pool; 0 = room for max_sequences sequences, at most half of the
   * memory left after weights and buffers */
  size_t cache_bytes;
  /* the cache manager frees blocks before the window, so a sequence holds at most
   * the window of its group and a step */
  bool gives_back;
  /* groups of layers that the cache manager keeps at most; 0, 1: all layers are one */
  uint32_t groups;
  bool keeps_chunks; /* ... groups of kind CHUNK */
  bool keeps_states; /* the cache manager keeps groups of kind STATE */
  /* memory for others on the device, a draft model, of which its free memory says nothing
   * (yet), or which is a part of what gpu_memory_utilization allows */
  size_t beside_bytes;
  /* the layer that guesses, which is loaded next if there is room for it and for its
   * cache, beside_bytes; NULL: none is, or another engine has it already */
  const struct lls_model_config *heads;
  /* fraction of the free memory to use if cache_bytes is 0; 0 = the default above */
  double cache_share;
  struct lls_pool_limits pool;
  /* instances that share the host's memory, this one included; 0 = 1 */
  uint32_t instances;
  bool no_hidden; /* no policy will use the hidden form: allocate no scratch for it */
  /* the cache manager does not use the hidden form: treated as no_hidden on devices
   * where scratch takes memory before it is used, such as GPUs */
  bool kv_only;

  bool adapters;        /* sequences may have adapters; there is no hidden form then */
  size_t adapter_bytes; /* memory of a device of its own for adapters' matrices */

  /* An engine with the same model and options whose weights this one uses in place if
   * both are in host memory (lls_device.is_host). It must outlive this one. NULL = load
   * the weights. */
  const struct lls_engine *weights_of;

  /* The engine of the model for which this one's layer guesses (heads.h), whose embedding
   * and head it uses. Both are in host memory, of a single rank, and that one outlives
   * this one. */
  const struct lls_engine *ends_of;

  /* Layers whose inputs a batch with keeps_hidden keeps, joined to one row for a token,
   * instead of the rows that the head reads; n_kept_layers 0: none. */
  uint32_t kept_layers[LLS_EAGLE_LAYERS], n_kept_layers;

  /* handle of the engine's rank in its group, the same as its device's; NULL = a single
   * rank */
  struct lls_ranks *ranks;

  /* Reports the progress of loading; returns false to stop it. NULL = no reports. */
  bool (*progress)(void *context, size_t done_bytes, size_t total_bytes);
  void *progress_context;
  int64_t (*clock)(void *context); /* nanoseconds; NULL = CLOCK_MONOTONIC */
  void *clock_context;
};

/* Returns the most columns of a row in any operation of this model, for
 * lls_device_options.max_columns. */
uint32_t lls_engine_max_columns(const struct lls_model_config *);

/* Returns 0; -ENOENT; -EINVAL: the folder is broken or not a supported model; -ENOMEM:
 * err has the sizes; or another negative errno. */
int lls_engine_create(const struct lls_engine_options *, const struct lls_model_config *,
                      struct lls_device *, struct lls_engine **out,
                      struct lls_error *err);
void lls_engine_destroy(struct lls_engine *);

/* Returns the reason why this engine does not offer the hidden form, or NULL if it
 * does. */
const char *lls_engine_why_no_hidden(const struct lls_engine *);
/* Returns the reason why the model rules the hidden form out, or NULL if it does not. */
const char *lls_model_why_no_hidden(const struct lls_model_config *);
/* True if hidden form is off only because no policy used it when this engine was created.
 */
bool lls_engine_gave_up_hidden(const struct lls_engine *);
const struct lls_engine_caps *lls_engine_caps(const struct lls_engine *);
/* Returns the reason why this engine verifies no guesses, or NULL if it can. */
const char *lls_engine_why_no_drafts(const struct lls_engine *);
/* Returns the most guesses that a step verifies, of all sequences: as many as it may have
 * sequences, so that they at most double the rows of logits. */
uint32_t lls_engine_draft_rows(const struct lls_engine *);
const struct lls_pool_shape *lls_engine_pool_shape(const struct lls_engine *);
/* Returns the most units that one sequence of `tokens` tokens holds at once, in KV
 * form. */
size_t lls_engine_units_for(const struct lls_engine *, size_t tokens);
/* Returns those that it holds when a step of few tokens has ended. */
size_t lls_engine_resting_units(const struct lls_engine *, size_t tokens);
/* Appends how many bytes a token takes in each group of layers, and how many a sequence
 * of that many tokens. */
void lls_engine_describe_cache(const struct lls_engine *, uint32_t tokens,
                               struct lls_text *out);
const char *lls_engine_device_name(const struct lls_engine *); /* "cpu", "cuda", "sim" */
/* Returns a text that explains the size of the device pool. */
const char *lls_engine_pool_reason(const struct lls_engine *);
/* Returns a text that explains the size of the host tier. */
const char *lls_engine_host_reason(const struct lls_engine *);
const struct lls_model_config *lls_engine_config(const struct lls_engine *);
/* True if the device computes between submit and wait while the caller's thread goes
 * on. */
bool lls_engine_is_asynchronous(const struct lls_engine *);
size_t lls_engine_weight_bytes(const struct lls_engine *);
/* Returns the bytes of the step's largest buffers, the only ones that memory accounting
 * needs. */
size_t lls_engine_buffer_bytes(const struct lls_engine *);
/* Returns the length of an output vector: the hidden size, the width of the model's
 * output projection, or the number of labels of a cross-encoder. */
uint32_t lls_engine_vector_columns(const struct lls_engine *);

/* Copies a group's block in KV form to or from memory; call it between steps only.
 * Returns -ENOTSUP if the device cannot, or if the ranks share each block. */
int lls_engine_read_block(struct lls_engine *, uint32_t group, uint32_t block, void *to);
int lls_engine_write_block(struct lls_engine *, uint32_t group, uint32_t block,
                           const void *from);
bool lls_engine_reads_blocks(const struct lls_engine *);

/* [any one thread] Copies slots of unit blocks to or from memory of
 * lls_engine_pack_memory, concurrently with steps (pool_pack and pool_unpack in
 * device.h). With several ranks only this rank's shard of each block is copied. */
bool lls_engine_packs(const struct lls_engine *);
int lls_engine_pack(struct lls_engine *, const struct lls_pull *, uint32_t n, void *to);
int lls_engine_unpack(struct lls_engine *, const struct lls_pull *, uint32_t n,
                      const void *from);
/* [any one thread] Allocates memory to pack into: LLS_MEMORY_PINNED, or PIECES where
 * the device has pieces. Only write_piece and read_piece below can access a piece.
 * Returns NULL if no memory is left. */
bool lls_engine_has_pieces(const struct lls_engine *);
void *lls_engine_pack_memory(struct lls_engine *, enum lls_memory, size_t bytes);
void lls_engine_release_pack_memory(struct lls_engine *, enum lls_memory, void *);
int lls_engine_write_piece(struct lls_engine *, void *piece, const void *from,
                           size_t bytes);
int lls_engine_read_piece(struct lls_engine *, const void *piece, void *to, size_t bytes);
/* Returns the engine's device, which links to other processes' devices start from
 * (device/link.h). */
struct lls_device *lls_engine_device(const struct lls_engine *);

/* Returns this engine's handle in its group of ranks, or NULL if it is a single rank. */
struct lls_ranks *lls_engine_ranks(const struct lls_engine *);

/* Returns the reason why unit blocks of `from` cannot be copied to this engine's pool,
 * or NULL if they can. */
const char *lls_engine_why_no_pull(const struct lls_engine *,
                                   const struct lls_engine *from);

/*
 * Starts one step. A device that computes in the caller's thread has finished the step
 * when submit returns. Returns 0; -EINVAL: rows, sequences or context above the limits,
 * or a bad table or copy, and nothing was started; -ENOTSUP: the batch uses a form,
 * direction or element that caps does not list ("unsupported by this engine").
 */
int lls_engine_submit(struct lls_engine *, const struct lls_engine_batch *,
                      struct lls_error *err);

/* Waits for the end of the last submitted step. An error here comes from the device and
 * is fatal. */
int lls_engine_wait(struct lls_engine *, struct lls_engine_result *,
                    struct lls_error *err);

/*
 * After lls_engine_wait: the first n guesses of the step's i-th sequence are text;
 * without a call none are. lls_engine_settle then makes them part of the sequence's
 * state, before anything else uses the pool. It returns the nanoseconds that this took, 0
 * for models without states, or a negative errno, which is fatal as in lls_engine_wait.
 */
void lls_engine_accept(struct lls_engine *, uint32_t sequence, uint32_t n);
int64_t lls_engine_settle(struct lls_engine *, struct lls_error *err);

/* [rank 0] Ends the other ranks, unless the group has failed. No step may follow. */
void lls_engine_dismiss(struct lls_engine *);
/* [rank 0] Sends a note to the other ranks, which receive it between the same two
 * steps. */
int lls_engine_tell(struct lls_engine *, const void *note, size_t bytes);

struct lls_engine_note {
  const void *data;
  size_t bytes;
};

enum {
  LLS_RECEIVED_END,
  LLS_RECEIVED_STEP,
  LLS_RECEIVED_NOTE,
  LLS_RECEIVED_ACCEPTED, /* lls_engine_settle is due */
};

/* [other ranks] Waits for rank 0's next message and returns which of the above it is: a
 * step or a note, valid until the next call, or the end of this rank. Returns a
 * negative errno on failure. */
int lls_engine_receive(struct lls_engine *, struct lls_engine_batch *,
                       struct lls_engine_note *, struct lls_error *err);

/*
 * Returns the rows that the head reads, (rows, hidden) in the device's type for
 * activations, of a sequence of the last step, or NULL. If its batch keeps_hidden: of all
 * its tokens. With options.ends_of: of its tokens that drew one. They are valid until the
 * next submit.
 */
const void *lls_engine_hidden_rows(const struct lls_engine *, uint32_t sequence);
/* Returns the bytes of such a row that drew a token, and of one that a layer that guesses
 * reads of the model. */
size_t lls_engine_hidden_bytes(const struct lls_engine *);
size_t lls_engine_joined_bytes(const struct lls_engine *);
/* Returns why no layer can guess for a model on this device, or NULL if one can. shared:
 * tensor parallel ranks compute the model. */
const char *lls_engine_why_no_heads(const struct lls_device *, bool shared);

/* Returns the logits (n_tokens, vocab) of a sequence submitted with all_logits, or NULL
 * if it was submitted without; valid until the next submit. */
const float *lls_engine_logits(const struct lls_engine *, uint32_t sequence);

#endif
