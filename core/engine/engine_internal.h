/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's insides, shared by the files of this folder. */
#ifndef LLS_ENGINE_ENGINE_INTERNAL_H
#define LLS_ENGINE_ENGINE_INTERNAL_H

#include "core/base/check.h"
#include "core/engine/engine.h"
#include "core/engine/table_cache.h"
#include "core/engine/shard.h"
#include "core/engine/weights.h"

/*
 * Activations of one step, in the device's memory and type. Branches follow each other,
 * so `wide` holds q, k, v first and the mlp's inner layer later, `narrow` what attention
 * gives and then the activated inner layer.
 */
struct lls_activations {
  void *x;         /* (max_tokens, hidden) the residual stream */
  void *h;         /* (max_tokens, max(hidden, embed_dim)) a branch's input */
  void *wide;      /* (max_tokens, max(qkv, up columns)) */
  void *narrow;    /* (max_tokens, max(heads head_dim, ffn)) */
  void *picked;    /* (max_logit_rows, hidden) rows whose logits are wanted */
  void *projected; /* (max_logit_rows, embed_dim), where the model projects */
  float *logits;   /* (max_logit_rows, vocab); of rank 0 */
  float *part;     /* (max_logit_rows, this rank's part of vocab), with other ranks */
  /* With mixtures of experts: `slots` = max_tokens active, and some that devices pad to.
   * wide and narrow have room for the inner layers of so many. */
  float *scores;          /* (max_tokens, experts) of the router */
  void *routed;           /* (slots, hidden) rows in the experts' order */
  struct lls_route route; /* of the layer that is computed */
};

/* A step on its way to the other ranks; rank_protocol.c. */
struct lls_engine_message {
  uint32_t *words; /* (n) of (room) */
  size_t n, room;
  struct lls_block_entry *entries; /* (entries_room) of the ranks that receive */
  size_t entries_room;
  struct lls_engine_sequence *sequences; /* (max_sequences) likewise */
  struct lls_block_table *tables;        /* (max_sequences) likewise */
};

struct lls_engine {
  struct lls_engine_options options;
  struct lls_model_config model;  /* the whole one */
  struct lls_model_config config; /* what of it is computed here: heads, kv_heads, ffn */
  struct lls_shard shard;
  struct lls_engine_message message;
  struct lls_engine_caps caps;
  struct lls_device *device;
  struct lls_weights weights;
  bool borrows_weights; /* they are another's: options.weights_of */
  struct lls_pool *pool;
  struct lls_pool_shape pool_shape;
  char pool_reason[224];                /* why it is as large as it is */
  char host_reason[128];                /* and why the host tier is */
  struct lls_attention_shape attention; /* of every layer, but for its window */
  struct lls_rope_shape ropes[3];       /* by enum lls_layer_rope */
  float *inverse_frequency;             /* (2, rope.dims / 2) what ropes[] point to */

  /* The step, flat. Rows whose logits are wanted: first the last row of every sequence
   * that gets a token, in batch order, then the other rows of those with all_logits. */
  size_t memory_before; /* free on the device before anything was loaded */
  struct lls_activations act;
  struct lls_device_step step;
  int32_t *tokens, *positions;         /* (max_tokens) */
  uint32_t *row_sequence;              /* (max_tokens) */
  struct lls_step_sequence *sequences; /* (max_sequences) */
  uint32_t max_logit_rows; /* max_sequences + options.max_logits, or max_tokens */
  uint32_t n_logit_rows, n_sampled, n_kept_logits;
  uint32_t *logit_rows;                 /* (max_logit_rows) */
  const struct lls_sampling **sampling; /* (max_sequences), n_sampled of them */
  struct lls_sampled *sampled;          /* (max_sequences), likewise */
  const struct lls_sampled **result;    /* (max_sequences) */
  float *logits;                        /* (options.max_logits, vocab) read back */
  /* Rows whose next token is known and scored: drawn like others, a few at a time */
  uint32_t n_score_rows;
  uint32_t *score_rows;                       /* (max_tokens) */
  struct lls_sampling *score_params;          /* (max_tokens) */
  const struct lls_sampling **score_sampling; /* (max_tokens) pointers to these */
  struct lls_sampled *scores;                 /* (max_tokens) */
  struct lls_sampled **score_targets;         /* (max_tokens) the callers' */
  /* Rows whose output vectors are added up: read back a few at a time */
  uint32_t n_pooled_rows;
  uint32_t *pooled_rows; /* (max_tokens) */
  float **pooled_sums;   /* (max_tokens) the callers', of each row */
  void *pooled;          /* (max_logit_rows, vector columns) read back */
  uint32_t *first_logit; /* (max_sequences) row in logits, NO_LOGITS if not kept */
  int64_t started_ns;
  bool running;       /* between submit and wait */
  bool copies;        /* blocks, in that step */
  bool prepares;      /* that step computes nothing: lls_device_step.prepare */
  const void *thread; /* which submitted it, and waits */

  /* Sequences of the step in hidden form; hidden.c. */
  bool absorbs;                            /* rows may attend to X itself */
  bool restores;                           /* any sequence has tokens to restore */
  bool attends_hidden;                     /* any is absorbed in this step */
  uint32_t scratch_used;                   /* units of the step */
  struct lls_block_entry *scratch_entries; /* (pool_shape.scratch_units) */
  struct lls_block_table *scratch_tables;  /* (max_sequences) */

  struct lls_table_cache
      table_cache; /* tables of the step before, and this one's; table_cache.c */
};

#define NO_LOGITS UINT32_MAX

static inline bool lls_engine_is_shared(const struct lls_engine *e)
{
  return e->shard.size > 1;
}

/* Where a sequence is cached; an encoder's is nowhere, whatever the cache manager says.
 */
static inline const struct lls_block_table *
lls_engine_table(const struct lls_engine *e, const struct lls_engine_sequence *s)
{
  static const struct lls_block_table none;
  return e->model.encoder ? &none : s->table;
}

static inline uint32_t lls_engine_columns(const struct lls_engine *e)
{
  if (e->config.labels > 0)
    return e->config.labels;
  return e->weights.project_out != NULL ? e->config.embed_dim : e->config.hidden;
}

/* tables.c: a list begins with no later token than a step behind `context` ones reads. */
int lls_engine_check_begin(const struct lls_engine *, const struct lls_block_entry *list,
                           uint32_t n, uint32_t context, struct lls_error *err);
/*
 * And then it has entries without gaps, of blocks that exist, to at least token `needed`,
 * of which `context` are there; those before entry `from` are known to be good.
 */
int lls_engine_check_entries(const struct lls_engine *, const struct lls_block_entry *,
                             uint32_t from, uint32_t n, uint32_t context, uint32_t needed,
                             struct lls_error *err);

/* Every pull of a batch is of an engine that this one can copy from. */
int lls_engine_check_pulls(const struct lls_engine *, const struct lls_engine_batch *,
                           struct lls_error *err);

/* rank_protocol.c */
int lls_engine_message_init(struct lls_engine *);
void lls_engine_message_free(struct lls_engine_message *);
/* [rank 0] Sends the batch to every rank. */
int lls_engine_send(struct lls_engine *, const struct lls_engine_batch *,
                    struct lls_error *err);

/* pool_size.c */
/* Ranks that take of the same memory. */
/* Bytes of the host tier beside a device pool of so many; host_reason says why. */
size_t lls_engine_host_bytes(struct lls_engine *, size_t device_bytes);
uint32_t lls_engine_sharers(const struct lls_engine *);
/* K and V units for one sequence of that many tokens. */
size_t lls_engine_units_for(const struct lls_engine *, size_t tokens);
/* The pool gets what is measured to be left. */
bool lls_engine_measures_memory(const struct lls_engine *);
int lls_engine_make_pool(struct lls_engine *, struct lls_error *);

/* memory_profile.c: bytes that the pool may have of a device with memory of its own. */
int lls_engine_profile_memory(struct lls_engine *, size_t *bytes, struct lls_error *);

/* first_steps.c */
/* Units of a pool that has room for these steps. */
uint32_t lls_engine_trial_units(const struct lls_engine *);
int lls_engine_try_steps(struct lls_engine *, struct lls_error *);
/* Shows the device the steps that will come, if it prepares for them. */
int lls_engine_prepare(struct lls_engine *, struct lls_error *);

/* hidden.c */
/* Once the weights are there. */
void lls_engine_decide_on_absorbing(struct lls_engine *);
uint32_t lls_engine_scratch_units(const struct lls_engine *);
/* Bytes left of so many for units by the scratch that comes with them. */
size_t lls_engine_without_scratch(struct lls_engine *, size_t bytes);
int lls_engine_check_hidden(const struct lls_engine *, const struct lls_engine_batch *,
                            struct lls_error *err);
void lls_engine_lay_out_hidden(struct lls_engine *, struct lls_step_sequence *);

/* Runs engine->step through the model up to act.logits of the wanted rows; forward.c. */
void lls_engine_forward(struct lls_engine *);

#endif
