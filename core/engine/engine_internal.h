/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's insides, shared by the files of this folder. */
#ifndef LLS_ENGINE_ENGINE_INTERNAL_H
#define LLS_ENGINE_ENGINE_INTERNAL_H

#include "core/base/check.h"
#include "core/engine/adapted_rows.h"
#include "core/engine/rank_adapters.h"
#include "core/engine/engine.h"
#include "core/engine/table_cache.h"
#include "core/engine/shard.h"
#include "core/engine/weights.h"

/*
 * Activations of one step, in the device's memory and type. The two branches of a layer
 * run one after the other and share buffers: `wide` holds q, k, v and later the mlp's
 * inner layer; `narrow` holds the output of attention and later the activated inner
 * layer.
 */
struct lls_activations {
  void *x;         /* (max_tokens, hidden) the residual stream */
  void *h;         /* (max_tokens, max(hidden, embed_dim)) a branch's input */
  void *wide;      /* (max_tokens, max(qkv, up columns)) */
  void *narrow;    /* (max_tokens, max(heads head_dim, ffn)) */
  void *joined;    /* (max_tokens, a row's numbers) what a layer that guesses reads */
  void *entry;     /* (max_tokens, hidden) EAGLE-3's normed embeddings, or NULL */
  void *kept;      /* (max_tokens, n_kept_layers, hidden) of a model, or NULL */
  void *latent;    /* (max_tokens, rank + rope) of latent models */
  void *picked;    /* (max_logit_rows, hidden) copies of the rows that need logits */
  void *projected; /* (max_logit_rows, embed_dim) if the model has an output projection */
  float *logits;   /* (max_logit_rows, vocab) on rank 0 */
  /* (max_logit_rows, this rank's share of vocab) if there are several ranks */
  float *part;
  /* With layer_inputs, else NULL: copies of the embedding; the layer's inputs, all and
   * picked */
  void *embedded;      /* (max_tokens, hidden) */
  void *inputs;        /* (max_tokens, layer_inputs) */
  void *picked_inputs; /* (max_logit_rows, layer_inputs) */
  /* With streams, else NULL: their hidden states and scores; those of the picked rows.
   * Each stream has room for the rows that devices pad with (lls_engine_padded_rows). */
  void *streams;        /* (streams, max_tokens, hidden) */
  void *picked_streams; /* (streams, max_logit_rows, hidden) */
  float *stream_scores; /* (max_tokens, streams) */
  /* With an index, else NULL: its queries, keys and weights of heads; what each row has
   * chosen. One buffer, whose beginning is `chosen` */
  void *index_queries, *index_keys, *index_weights; /* (max_tokens, ...) */
  uint32_t *chosen;                                 /* (max_tokens, chosen) */
  /* For mixtures of experts: `slots` = max_tokens times the active experts, plus the
   * padding that devices need. wide and narrow hold the inner layers of that many
   * slots. */
  float *scores;          /* (max_tokens, experts) the router's output */
  void *routed;           /* (slots, hidden) rows sorted by expert */
  struct lls_route route; /* the route of the layer being computed */
};

/* A step as words that rank 0 sends to the other ranks; rank_protocol.c. */
struct lls_engine_message {
  uint32_t *words; /* (room) of which n are used */
  size_t n, room;
  /* the next four are of receiving ranks */
  struct lls_block_entry *entries; /* (entries_room) */
  size_t entries_room;
  struct lls_engine_sequence *sequences; /* (max_sequences) */
  struct lls_block_table *tables;        /* (max_sequences) */
  struct lls_group_list *lists;          /* (max_sequences, groups) */
};

/* A group of layers, as policies see it; groups.c. */
struct lls_engine_group {
  struct lls_group seen;
  uint64_t kind; /* see groups.c */
  struct lls_group_form forms[3];
  /* units of a block by form; NONE is KV; of a group of states: all the same */
  uint32_t form_units[LLS_FORM_STATE + 1];
};

/* Where a layer's K and V are, or its state. */
struct lls_layer_place {
  uint32_t group, index; /* its number among the layers of that group */
  uint64_t at;           /* bytes before its state in a block */
  uint64_t tail;         /* numbers before its tail in tails.memory */
};

/* A sequence of the step whose guesses are not in its state yet; tails.c. */
struct lls_engine_fold {
  uint32_t sequence;
  uint32_t first, n; /* its rows of each layer's tail */
  uint32_t accepted;
  uint32_t known; /* tokens that its state has seen */
  uint32_t block; /* the state's */
  uint32_t first_copy, n_copies;
};

struct lls_engine_tails {
  void *memory;   /* of each layer with a state: rows, then gates; NULL: none is kept */
  void *spare;    /* see lls_device_step */
  uint32_t *rows; /* (draft_rows) n_rows guesses of the step */
  uint32_t n_rows, n_folds, n_copies;
  struct lls_engine_fold *folds; /* (sequences that may have guesses) */
  /* (draft_rows) states between guesses that lists want a copy of */
  struct lls_block_entry *copies;
  struct lls_state_span *spans; /* (2 draft_rows) */
};

struct lls_engine {
  struct lls_engine_options options;
  struct lls_model_config model; /* the whole model */
  /* this rank's shard of the model: heads, kv_heads, ffn */
  struct lls_model_config config;
  struct lls_shard shard;
  struct lls_engine_message message;
  struct lls_rank_adapters rank_adapters;
  struct lls_engine_caps caps;
  struct lls_engine_group groups[LLS_MAX_GROUPS]; /* (caps.n_groups) */
  const struct lls_group *seen_groups[LLS_MAX_GROUPS];
  struct lls_layer_place places[LLS_MAX_LAYERS]; /* (layers) */
  struct lls_device *device;
  struct lls_weights weights;
  bool borrows_weights; /* the weights belong to options.weights_of */
  struct lls_pool *pool;
  struct lls_pool_shape pool_shape;
  char pool_reason[224]; /* explains the size of the device pool */
  char host_reason[128]; /* explains the size of the host tier */
  /* the shape for every layer, except for the window and the group */
  struct lls_attention_shape attention;
  bool grows_queries;             /* contexts reach positions at which queries grow */
  struct lls_rope_shape ropes[3]; /* indexed by enum lls_layer_rope */
  float *inverse_frequency;       /* of both ropes; ropes[] point into it */

  /* The flattened step. Rows that need logits are ordered: first those that draw a token,
   * in batch order, then the other rows of sequences with all_logits. draws is
   * max_sequences + lls_engine_draft_rows. */
  size_t memory_before; /* free on the device before anything was loaded */
  struct lls_activations act;
  struct lls_device_step step;
  int32_t *tokens, *positions;         /* (max_tokens) */
  uint32_t *row_sequence;              /* (max_tokens) */
  struct lls_step_sequence *sequences; /* (groups, max_sequences) */
  struct lls_state_span *spans;        /* (2 max_tokens) */
  uint32_t draft_rows;                 /* lls_engine_draft_rows */
  uint32_t max_logit_rows;             /* draws + options.max_logits, or max_tokens */
  uint32_t n_logit_rows, n_sampled, n_kept_logits;
  uint32_t *logit_rows;                 /* (max_logit_rows) */
  const struct lls_sampling **sampling; /* (draws) n_sampled are used */
  struct lls_sampled *sampled;          /* (draws) n_sampled are used */
  const struct lls_sampled **result;    /* (max_sequences) */
  float *logits;                        /* (options.max_logits, vocab) read back */
  /* Rows whose next token is known and gets a score: they are drawn like others, a few
   * at a time */
  uint32_t n_score_rows;
  bool keeps_hidden, own_hidden;     /* the batch does, has */
  uint32_t *score_rows;              /* (max_tokens) */
  struct lls_sampling *score_params; /* (max_tokens) */
  /* (max_tokens) pointers into score_params */
  const struct lls_sampling **score_sampling;
  struct lls_sampled *scores; /* (max_tokens) */
  /* (max_tokens) where the caller wants each score */
  struct lls_sampled **score_targets;
  /* Rows whose output vectors are summed: they are read back a few at a time */
  uint32_t n_pooled_rows;
  uint32_t *pooled_rows; /* (max_tokens) */
  float **pooled_sums;   /* (max_tokens) for each pooled row the caller's sum vector */
  void *pooled;          /* (max_logit_rows, vector columns) read back */
  uint32_t *first_logit; /* (max_sequences) row in logits, NO_LOGITS if not kept */
  int64_t started_ns;
  bool running;  /* a step is running: between submit and wait */
  bool copies;   /* the step in progress copies blocks */
  bool prepares; /* the step in progress computes nothing: lls_device_step.prepare */
  /* the thread that submitted the step, which must also wait for it */
  const void *thread;

  /* Sequences of the step in hidden form; hidden.c. */
  /* this engine can attend to X itself (absorb) instead of restoring K and V */
  bool absorbs;
  /* a sequence of the step has tokens to restore */
  bool restores;
  bool attends_hidden;                     /* a sequence of the step is absorbed */
  uint32_t scratch_used;                   /* scratch blocks that the step uses */
  struct lls_block_entry *scratch_entries; /* (pool_shape.scratch_blocks) */

  struct lls_engine_adapters adapters;
  struct lls_engine_tails tails;

  struct lls_table_cache
      table_cache; /* block tables of the previous and this step; table_cache.c */
};

#define NO_LOGITS UINT32_MAX

/* activations.c */
int lls_engine_make_activations(struct lls_engine *, struct lls_error *);
void lls_engine_free_activations(struct lls_engine *);

/* groups.c: divides the model's layers among groups, and sets those of the pool's shape.
 * Returns -ENOTSUP if the cache manager cannot keep them. */
int lls_engine_divide_layers(struct lls_engine *, struct lls_error *err);
/* Fills the groups and caps.groups, when caps.forms are known. */
void lls_engine_make_groups(struct lls_engine *);

static inline bool lls_engine_is_shared(const struct lls_engine *e)
{
  return e->shard.size > 1;
}

/* Returns a sequence's list of blocks in a group: an empty one for an encoder, whatever
 * the cache manager assigned. */
static inline const struct lls_group_list *
lls_engine_list(const struct lls_engine *e, const struct lls_engine_sequence *s,
                uint32_t group)
{
  static const struct lls_group_list none;
  return e->model.encoder || group >= s->table->n_groups ? &none
                                                         : &s->table->lists[group];
}

/* True if the list has X in place of K and V. */
static inline bool lls_list_is_hidden(const struct lls_group_list *l)
{
  return l->n_entries > 0 && l->entries[0].form == LLS_FORM_HIDDEN;
}

static inline uint32_t lls_engine_columns(const struct lls_engine *e)
{
  if (e->config.labels > 0)
    return e->config.labels;
  return e->weights.project_out != NULL ? e->config.embed_dim : e->config.hidden;
}

/* tables.c: checks that a group's list does not begin after the first token that a step
 * with `context` cached tokens reads. */
int lls_engine_check_begin(const struct lls_group *, const struct lls_block_entry *list,
                           uint32_t n, uint32_t context, struct lls_error *err);
/*
 * Checks the entries after lls_engine_check_begin: they have no gaps, name blocks that
 * exist, in HIDDEN form if `hidden`, else in the others, and cover at least tokens up to
 * `needed`, of which `context` are cached. Entries before `from` are known to be good.
 */
struct lls_list_check {
  bool hidden;
  uint32_t group;
  uint32_t from, context, needed;
};
int lls_engine_check_entries(const struct lls_engine *, const struct lls_block_entry *,
                             uint32_t n, const struct lls_list_check *,
                             struct lls_error *err);

static inline bool lls_engine_group_is_state(const struct lls_engine *e, uint32_t group)
{
  return e->groups[group].seen.kind == LLS_GROUP_STATE;
}

/* states.c: checks a list of states: it begins with the one after `context` tokens, and
 * names blocks that exist. */
int lls_engine_check_states(const struct lls_engine *, const struct lls_group_list *,
                            uint32_t group, uint32_t context, struct lls_error *err);
/* Adds the spans of a sequence's rows, from first_row on, and its guesses' tail. */
void lls_engine_lay_out_spans(struct lls_engine *, const struct lls_engine_sequence *,
                              uint32_t index, uint32_t first_row);

/* tails.c: guesses of sequences with states. The first two are 0 where there are no
 * tails. */
size_t lls_engine_tail_numbers(const struct lls_engine *);
size_t lls_engine_spares_bytes(const struct lls_engine *);
int lls_engine_make_tails(struct lls_engine *);
void lls_engine_free_tails(struct lls_engine *);
void lls_engine_begin_tails(struct lls_engine *);
/* Adds a sequence's guesses, whose first one is at first_row, with its list of states. */
void lls_engine_add_tail(struct lls_engine *, const struct lls_engine_sequence *,
                         const struct lls_group_list *, uint32_t index,
                         uint32_t first_row);
/* A layer's tail: its rows, each of `columns` numbers, followed by its gates. */
void *lls_engine_tail_of(const struct lls_engine *, uint32_t layer);
void *lls_engine_tail_gates(const struct lls_engine *, uint32_t layer, uint32_t columns);

/* engine_step.c */
int64_t lls_engine_now(const struct lls_engine *);
/* Reports a failure to the whole group, so that no rank continues after one has failed.
 */
int lls_engine_tell_ranks(struct lls_engine *, int rc, const struct lls_error *why,
                          struct lls_error *err);

/* Checks that the source engine of each pull in a batch has a pool that this one can
 * copy from. */
int lls_engine_check_pulls(const struct lls_engine *, const struct lls_engine_batch *,
                           struct lls_error *err);

/* rank_protocol.c */
int lls_engine_message_init(struct lls_engine *);
void lls_engine_message_free(struct lls_engine_message *);
/* [rank 0] Sends the batch to every rank. */
int lls_engine_send(struct lls_engine *, const struct lls_engine_batch *,
                    struct lls_error *err);
/* [rank 0] Sends how many guesses were accepted, which the others fold before the next
 * step. */
int lls_engine_send_accepted(struct lls_engine *, struct lls_error *err);

/* pool_size.c */
/* Ranks that take of the same memory. */
/* Returns the bytes of the host tier for a device pool of device_bytes; host_reason
 * explains them. */
size_t lls_engine_host_bytes(struct lls_engine *, size_t device_bytes);
uint32_t lls_engine_sharers(const struct lls_engine *);
/* True if the pool gets the memory that a trial run leaves free (memory_profile.c). */
bool lls_engine_measures_memory(const struct lls_engine *);
int lls_engine_make_pool(struct lls_engine *, struct lls_error *);

/* memory_profile.c: finds how many bytes of a device's own memory the pool may have. */
int lls_engine_profile_memory(struct lls_engine *, size_t *bytes, struct lls_error *);

/* first_steps.c */
/* Returns the units of a pool large enough for the trial steps. */
uint32_t lls_engine_trial_units(const struct lls_engine *);
int lls_engine_try_steps(struct lls_engine *, struct lls_error *);
/* Runs the steps that the device wants to prepare for, such as by recording graphs. */
int lls_engine_prepare(struct lls_engine *, struct lls_error *);

/* hidden.c */
/* Sets `absorbs`; call it when the weights are loaded. */
void lls_engine_decide_on_absorbing(struct lls_engine *);
uint32_t lls_engine_scratch_blocks(const struct lls_engine *);
/* Returns how many of `bytes` remain for units after the scratch that they need. */
size_t lls_engine_without_scratch(struct lls_engine *, size_t bytes);
int lls_engine_check_hidden(const struct lls_engine *, const struct lls_engine_batch *,
                            struct lls_error *err);
void lls_engine_lay_out_hidden(struct lls_engine *, struct lls_step_sequence *);

/* forward.c: runs engine->step through the model, up to act.logits of the rows that
 * need logits. */
void lls_engine_forward(struct lls_engine *);

#endif
